package team

// Fault is something wrong in a file that a person wrote.
type Fault struct {
	// Path says where: a YAMLPath like $.phases[2].personas[0].
	Path string
	// Message says what is wrong there and what would be right.
	Message string
}

// Faults returns what is wrong with the team as it was parsed, before
// [Team.Resolved] fills in what the file leaves out. None: it can run.
func (t Team) Faults() []Fault {
	var faults []Fault
	if t.Version != 1 {
		faults = append(faults, Fault{"$.version", "must be 1, the only version of the format"})
	}
	return faults
}
