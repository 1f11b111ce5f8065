package newfile

import "os"

// Temporary is a file that becomes another one when it is published. As long as it is open, its Name opens it a second
// time.
type Temporary struct {
	*os.File
	// isNamed is set where the file has a name in its directory, and a process that is killed leaves it.
	isNamed bool
}

// Create makes a temporary file in dir, for reading and writing by its owner. On Linux it has no name on most file
// systems, so that nothing of it is left when the process is killed.
func Create(dir string) (*Temporary, error) {
	if t, err := createNameless(dir); err == nil {
		return t, nil
	}
	file, err := os.CreateTemp(dir, ".rangekeeper-*")
	if err != nil {
		return nil, err
	}
	return &Temporary{file, true}, nil
}

// Remove closes the file, and removes it if it was not published.
func (t *Temporary) Remove() {
	t.Close()
	if t.isNamed {
		os.Remove(t.Name()) // a second name of the target by then, or none
	}
}
