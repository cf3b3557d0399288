package agent

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	Shim()
	os.Exit(m.Run())
}
