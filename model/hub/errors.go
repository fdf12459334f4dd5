package hub

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// StatusError is an answer other than the one that was asked for.
type StatusError struct {
	Code    int
	What    string // the model, the file or the address
	Reason  string // the hub's word for it, such as GatedRepo, RepoNotFound, RevisionNotFound and EntryNotFound; empty if it gave none
	Message string // the hub's sentence, shortened; it is a stranger's text
	Token   bool   // a token was sent
}

// Error returns one line.
func (e *StatusError) Error() string {
	text := http.StatusText(e.Code)
	if e.Message != "" {
		text = e.Message
	}
	return strings.TrimRight(fmt.Sprintf("hub: %s: the server answers %d %s", e.What, e.Code, text), " .")
}

// passing tells whether the same question may have a better answer soon.
func (e *StatusError) passing() bool {
	return e.Code == http.StatusTooManyRequests || e.Code == http.StatusRequestTimeout || e.Code >= 500 && e.Code != http.StatusNotImplemented
}

// ChecksumError says that the bytes which came are not those that were promised. They are not kept.
type ChecksumError struct {
	What      string
	Kind      string // sha256, or git's hash of a blob
	Want, Got string
}

// Error returns one line.
func (e *ChecksumError) Error() string {
	return fmt.Sprintf("hub: %s: %s is %s, want %s", e.What, e.Kind, e.Got, e.Want)
}

// SpaceError says that the disk has too little room for what was asked for.
type SpaceError struct {
	Dir        string
	Need, Free int64
}

// Error returns one line.
func (e *SpaceError) Error() string {
	return fmt.Sprintf("hub: %s: %d bytes more are needed, the disk has %d free", e.Dir, e.Need, e.Free)
}

// BrokenError says that a transfer ended early time after time. What came is kept.
type BrokenError struct {
	What      string
	Have, All int64 // All is −1 where it is not known
	Err       error
}

// Error returns one line.
func (e *BrokenError) Error() string {
	if e.All < 0 {
		return fmt.Sprintf("hub: %s: broke off after %d bytes: %v", e.What, e.Have, e.Err)
	}
	return fmt.Sprintf("hub: %s: broke off after %d of %d bytes: %v", e.What, e.Have, e.All, e.Err)
}

// Unwrap returns what broke it off.
func (e *BrokenError) Unwrap() error { return e.Err }

// NameError says that what was to be fetched cannot be named so.
type NameError struct{ text string }

// Error returns one line.
func (e *NameError) Error() string { return "hub: " + e.text }

func badName(format string, args ...any) error { return &NameError{fmt.Sprintf(format, args...)} }

// ErrExists says that a file which was to be fetched has another in its place.
var ErrExists = errors.New("there is another file of this name")

// passingError is a fault of the network, which may be gone at the next try.
type passingError struct{ error }

func (e passingError) Unwrap() error { return e.error }

// passes tells whether to try again.
func passes(err error) bool {
	var p passingError
	var s *StatusError
	return errors.As(err, &p) || errors.As(err, &s) && s.passing()
}
