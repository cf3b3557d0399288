package procgroup

import "bytes"

// maxEventLine bounds a line, in bytes. A longer one is left out: no event that matters
// comes near it.
const maxEventLine = 16 << 20

// Lines cuts a masked stream into the lines of its events.
type Lines struct {
	// OnLine gets every line that is not blank, without its end.
	OnLine func(line []byte)
	line   []byte
	// long: the line has passed maxEventLine, and the rest of it is dropped.
	long bool
}

// Add takes the next piece of output.
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

// End takes the end of a line, or of the stream.
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
