package system

import (
	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// payloads collects the data of every payload in a message, at any depth.
func payloads(m protoreflect.Message) [][]byte {
	if p, ok := m.Interface().(*commonpb.Payload); ok {
		return [][]byte{p.GetData()}
	}
	var out [][]byte
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					out = append(out, payloads(v.Message())...)
					return true
				})
			}
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				out = append(out, payloads(v.List().Get(i).Message())...)
			}
		default:
			out = append(out, payloads(v.Message())...)
		}
		return true
	})
	return out
}
