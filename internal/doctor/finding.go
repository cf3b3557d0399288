package doctor

// The results of a check.
const (
	OK = "ok"
	// Warning does not prevent a start.
	Warning = "warning"
	// Bad prevents sessions from running.
	Bad = "bad"
)

// Finding is the result of one check.
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
