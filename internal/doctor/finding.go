package doctor

// The results of a check.
const (
	OK = "ok"
	// Warning is worth knowing and no reason not to start.
	Warning = "warning"
	// Bad is in the way of sessions.
	Bad = "bad"
)

// Finding is what one check has found.
type Finding struct {
	Check string `json:"check"`
	// Result is ok, warning or bad.
	Result  string `json:"result"`
	Message string `json:"message"`
	// Remedy says what to do; empty for ok.
	Remedy string `json:"remedy,omitempty"`
	// Command does it, for a shell, where one command can.
	Command string `json:"command,omitempty"`
}
