package procgroup

import "bytes"

// maxEventLine bounds a line, in bytes. A longer one is left out: the events that are
// read are far shorter.
const maxEventLine = 16 << 20

// Lines splits a masked stream of events into lines.
type Lines struct {
	// OnLine gets every line that is not blank, without the line break.
	OnLine func(line []byte)
	line   []byte
	// long: the line is longer than maxEventLine, and the rest of it is dropped.
	long bool
}

// Add adds the next piece of output.
func (l *Lines) Add(data []byte) {
	for len(data) > 0 {
		piece, rest, ended := bytes.Cut(data, []byte{'\n'})
		data = rest
		l.long = l.long || len(l.line)+len(piece) > maxEventLine
		if !l.long {
			l.line = append(l.line, piece...)
		}
		if ended {
			l.End()
		}
	}
}

// End ends the line. It is also called at the end of the stream.
func (l *Lines) End() {
	line := bytes.TrimSpace(l.line)
	if l.long {
		line = []byte("… an oversized event is omitted …")
	}
	if len(line) > 0 {
		l.OnLine(line)
	}
	l.line, l.long = l.line[:0], false
}
