package rangekeeper

import (
	"errors"
	"reflect"
	"testing"
)

// Every method of a nil or zero handle returns ErrClosed, or zero values if it returns no error.
func TestNilAndZeroHandles(t *testing.T) {
	for _, zero := range []any{
		new(Allocator), new(RangeAllocation), new(LeakCounters), new(LeakTracker), new(RepairPass), new(Audit), new(Report), new(Committer),
		new(Bootstrap),
	} {
		of := reflect.TypeOf(zero)
		for _, handle := range []reflect.Value{reflect.Zero(of), reflect.ValueOf(zero)} {
			for i := range of.NumMethod() {
				if method := of.Method(i); method.Name != "Close" {
					checkZero(t, method, handle)
				}
			}
		}
	}
}

func checkZero(t *testing.T, method reflect.Method, handle reflect.Value) {
	t.Helper()
	defer func() {
		if fault := recover(); fault != nil {
			t.Errorf("%v.%s, nil: %t: %v", handle.Type(), method.Name, handle.IsNil(), fault)
		}
	}()
	args := []reflect.Value{handle}
	for i := 1; i < method.Type.NumIn(); i++ {
		if in := method.Type.In(i); in.Kind() == reflect.Pointer {
			args = append(args, reflect.New(in.Elem()))
		} else {
			args = append(args, reflect.Zero(in))
		}
	}
	call := method.Func.Call
	if method.Type.IsVariadic() {
		call = method.Func.CallSlice
	}
	results := call(args)
	last := results[len(results)-1]
	if err, ok := last.Interface().(error); ok || last.Type() == reflect.TypeFor[error]() {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%v.%s, nil: %t: %v", handle.Type(), method.Name, handle.IsNil(), err)
		}
		return
	}
	for _, result := range results {
		if result.Kind() != reflect.Func && !result.IsZero() {
			t.Errorf("%v.%s, nil: %t: %v", handle.Type(), method.Name, handle.IsNil(), result)
		}
	}
}
