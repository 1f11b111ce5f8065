package audit

import (
	"encoding/json"
	"fmt"
)

// Count is a number of findings or leaks. In a document it is null if the source does not show all of them: the lists
// have those that it shows, and [Report.Unknown] says what it does not.
type Count struct {
	// Found are in the lists.
	Found int
	// IsAtLeast says that there may be more.
	IsAtLeast bool
}

// String returns "at least 3" if there may be more than 3.
func (c Count) String() string {
	if c.IsAtLeast {
		return fmt.Sprintf("at least %d", c.Found)
	}
	return fmt.Sprint(c.Found)
}

// IsUnknown reports whether the source shows nothing of it, so that 0 would be wrong.
func (c Count) IsUnknown() bool { return c.IsAtLeast && c.Found == 0 }

func (c Count) MarshalJSON() ([]byte, error) { return nullable(c.Found, c.IsAtLeast) }

func (c *Count) UnmarshalJSON(text []byte) (err error) {
	c.IsAtLeast, err = readNullable(text, &c.Found)
	return err
}

// Amount is a number of values of a range. In a document it is null if the source does not show it.
type Amount struct {
	// N is a bound if the amount is unseen: of the used values the least, of the free ones the most.
	N      uint64
	Unseen bool
}

func (a Amount) MarshalJSON() ([]byte, error) { return nullable(a.N, a.Unseen) }

func (a *Amount) UnmarshalJSON(text []byte) (err error) {
	a.Unseen, err = readNullable(text, &a.N)
	return err
}

// nullable writes a number, or null for one that the source does not show.
func nullable(number any, isNull bool) ([]byte, error) {
	if isNull {
		return []byte("null"), nil
	}
	return json.Marshal(number)
}

// readNullable reads what nullable writes.
func readNullable(text []byte, number any) (isNull bool, err error) {
	return string(text) == "null", json.Unmarshal(text, number)
}
