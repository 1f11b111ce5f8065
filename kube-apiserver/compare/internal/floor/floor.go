// Package floor holds measured figures against what is demanded of them.
package floor

import (
	"errors"
	"fmt"
	"io"
)

// Floor is a demand on a figure of Rangekeeper.
type Floor struct {
	Name string `json:"name"`
	// Want is the lowest accepted value, or the highest one if AtMost is true. Got is the measured one.
	Want   float64 `json:"want"`
	AtMost bool    `json:"at_most,omitempty"`
	Got    float64 `json:"got"`
	Holds  bool    `json:"holds"`
}

// AtLeast demands that got is not below want.
func AtLeast(name string, got, want float64) Floor {
	return Floor{Name: name, Want: want, Got: got, Holds: got >= want}
}

// AtMost demands that got is not above want.
func AtMost(name string, got, want float64) Floor {
	return Floor{Name: name, Want: want, AtMost: true, Got: got, Holds: got <= want}
}

// Print writes a row for each demand, with cells that end in tabs.
func Print(table io.Writer, floors []Floor) {
	fmt.Fprintln(table, "floor\twanted\tmeasured\tholds\t")
	for _, f := range floors {
		bound := "at least"
		if f.AtMost {
			bound = "at most"
		}
		fmt.Fprintf(table, "%s\t%s %.2f\t%.2f\t%v\t\n", f.Name, bound, f.Want, f.Got, f.Holds)
	}
}

// Check returns an error if a demand does not hold.
func Check(floors []Floor) error {
	for _, f := range floors {
		if !f.Holds {
			return errors.New("a floor is missed")
		}
	}
	return nil
}
