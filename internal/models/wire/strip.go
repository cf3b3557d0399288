package wire

import (
	"bytes"
	"encoding/json"
	"io"
)

// maxUsageEvent is larger than the event of Chat Completions with the usage, in bytes. Of a larger event no more is held.
const maxUsageEvent = 8 << 10

// UsageStripper forwards a stream of Chat Completions without the event that reports the usage,
// for programs that have not asked for it. It forwards an event when it is complete.
type UsageStripper struct {
	To io.Writer

	held []byte
}

// Write forwards the next part. Errors are those of the writer.
func (s *UsageStripper) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		s.held, rest = append(s.held, rest[:end]...), rest[end:]
		over := bytes.HasSuffix(s.held, []byte("\n\n")) || bytes.HasSuffix(s.held, []byte("\n\r\n"))
		if over && reportsUsage(s.held) {
			s.held = s.held[:0]
		} else if over || len(s.held) > maxUsageEvent {
			if err := s.Flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// Flush forwards the held bytes at the end of the stream.
func (s *UsageStripper) Flush() error {
	_, err := s.To.Write(s.held)
	s.held = s.held[:0]
	return err
}

func reportsUsage(event []byte) bool {
	data, ok := bytes.CutPrefix(bytes.TrimSpace(event), []byte("data:"))
	if !ok || !bytes.Contains(data, []byte(`"usage"`)) {
		return false
	}
	var chunk struct {
		Choices []json.RawMessage `json:"choices"`
		Usage   *json.RawMessage  `json:"usage"`
	}
	return json.Unmarshal(data, &chunk) == nil && chunk.Choices != nil && len(chunk.Choices) == 0 && chunk.Usage != nil
}
