//go:build !linux

// Package overlayfs finds and makes no marks: only Linux has overlays.
package overlayfs

import (
	"errors"
	"io/fs"
	"os"
)

// IsWhiteout returns false.
func IsWhiteout[Device int32 | uint64](fs.FileMode, Device) bool { return false }

// MakeWhiteout returns [errors.ErrUnsupported].
func MakeWhiteout(int, string) error { return errors.ErrUnsupported }

// IsOpaque returns false.
func IsOpaque(*os.File) (bool, error) { return false, nil }

// MakeOpaque returns [errors.ErrUnsupported].
func MakeOpaque(*os.File) error { return errors.ErrUnsupported }
