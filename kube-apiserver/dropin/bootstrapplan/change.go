package bootstrapplan

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Change is the change to one object: none, or one of the fields.
type Change[T any] struct {
	// Create: the object does not exist.
	Create *T
	// Update: write the whole object, with the resourceVersion that was read.
	Update *T
	// Replace: delete the object that was read, and create this one in its place.
	Replace *T
}

// UnmarshalJSON reads the text "leave", or an object with one field.
func (c *Change[T]) UnmarshalJSON(text []byte) error {
	*c = Change[T]{}
	if string(text) == `"leave"` {
		return nil
	}
	var fields map[string]*T
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	for name, object := range fields {
		// Clear apiVersion and kind, as client-go does.
		if typed, ok := any(object).(runtime.Object); ok {
			typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		}
		switch name {
		case "create":
			c.Create = object
		case "update":
			c.Update = object
		case "replace":
			c.Replace = object
		default:
			return fmt.Errorf("unknown change %q", name)
		}
	}
	return nil
}

// IsLeave reports whether there is no change.
func (c Change[T]) IsLeave() bool { return c == Change[T]{} }

// String names the change.
func (c Change[T]) String() string {
	switch {
	case c.Create != nil:
		return "create"
	case c.Update != nil:
		return "update"
	case c.Replace != nil:
		return "replace"
	default:
		return "leave"
	}
}

// Client is the part of a typed client of client-go that a change needs.
type Client[T any] interface {
	Create(ctx context.Context, object *T, options metav1.CreateOptions) (*T, error)
	Update(ctx context.Context, object *T, options metav1.UpdateOptions) (*T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// Read identifies the version of an object that was read.
type Read interface {
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
}

// Make makes the change; read is the version that was read. The error is the API server's. IsStale reports whether
// another version was stored.
func (c Change[T]) Make(ctx context.Context, client Client[T], read Read) error {
	var err error
	switch {
	case c.Create != nil:
		_, err = client.Create(ctx, c.Create, metav1.CreateOptions{})
	case c.Update != nil:
		_, err = client.Update(ctx, c.Update, metav1.UpdateOptions{})
	case c.Replace != nil:
		uid, version := read.GetUID(), read.GetResourceVersion()
		preconditions := &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
		err = client.Delete(ctx, read.GetName(), metav1.DeleteOptions{Preconditions: preconditions})
		if err == nil {
			_, err = client.Create(ctx, c.Replace, metav1.CreateOptions{})
		}
	}
	return err
}

// IsStale reports whether a change failed because the version that was read is out of date.
func IsStale(err error) bool {
	return errors.IsConflict(err) || errors.IsAlreadyExists(err) || errors.IsNotFound(err)
}
