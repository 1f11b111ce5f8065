package audit

import (
	"encoding/json"
	"fmt"
)

// Count is a number of findings or leaks. In a document it is null if the source does not show all of them: the lists have those that it
// shows, and [Report.Unknown] says what it does not.
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

func (c Count) MarshalJSON() ([]byte, error) {
	if c.IsAtLeast {
		return []byte("null"), nil
	}
	return json.Marshal(c.Found)
}

func (c *Count) UnmarshalJSON(text []byte) error {
	c.IsAtLeast = string(text) == "null"
	return json.Unmarshal(text, &c.Found)
}

// Amount is a number of values of a range. In a document it is null if the source does not show it.
type Amount struct {
	// N is a bound if the amount is unseen: of the used values the least, of the free ones the most.
	N      uint64
	Unseen bool
}

func (a Amount) MarshalJSON() ([]byte, error) {
	if a.Unseen {
		return []byte("null"), nil
	}
	return json.Marshal(a.N)
}

func (a *Amount) UnmarshalJSON(text []byte) error {
	a.Unseen = string(text) == "null"
	return json.Unmarshal(text, &a.N)
}
