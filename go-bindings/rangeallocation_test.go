package rangekeeper

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Every value that a kube-apiserver wrote is encoded to the same bytes, as it is and after a rewrite of its own content.
func TestStoredValuesRoundTrip(t *testing.T) {
	files := must(filepath.Glob("../testdata/kube-*/*.bin.gz"))
	if len(files) == 0 {
		t.Fatal("no stored values in testdata")
	}
	for _, name := range files {
		file := must(os.Open(name))
		stored := must(io.ReadAll(must(gzip.NewReader(file))))
		file.Close()
		o := must(DecodeRangeAllocation(stored))
		text, data := must(o.Range()), must(o.Data(nil))
		if text == "" || must(o.Form()) != Protobuf || !bytes.Equal(must(o.Encode(nil)), stored) {
			t.Error(name)
		}
		if err := o.Set("", nil); err != nil || bytes.Equal(must(o.Encode(nil)), stored) {
			t.Error(name, err)
		}
		if err := o.Set(text, data); err != nil || !bytes.Equal(must(o.Encode(make([]byte, 9))), stored) {
			t.Error(name, err)
		}
		o.Close()
	}
}

func TestRangeAllocationJSON(t *testing.T) {
	o := must(NewRangeAllocation(JSON))
	defer o.Close()
	if err := o.Set("1-10", []byte{5}); err != nil {
		t.Fatal(err)
	}
	again := must(DecodeRangeAllocation(must(o.Encode(nil))))
	defer again.Close()
	if must(again.Form()) != JSON || must(again.Range()) != "1-10" || !bytes.Equal(must(again.Data(nil)), []byte{5}) {
		t.Error("JSON is not read as it was written")
	}
}

func TestDecodeErrors(t *testing.T) {
	whole := must(must(NewRangeAllocation(Protobuf)).Encode(nil))
	for _, stored := range [][]byte{nil, []byte("x"), []byte("{"), []byte("k8s\x00"), whole[:len(whole)/2]} {
		var decode *DecodeError
		_, err := DecodeRangeAllocation(stored)
		if !errors.As(err, &decode) || decode.Message == "" || decode.Offset > uint64(len(stored)) || errors.Is(err, ErrEncrypted) {
			t.Errorf("%q: %v", stored, err)
		}
	}
	if _, err := DecodeRangeAllocation([]byte("k8s:enc:aescbc:v1:key1:...")); !errors.Is(err, ErrEncrypted) {
		t.Error(err)
	}
	if _, err := NewRangeAllocation(Form(9)); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestRangeAllocationAfterClose(t *testing.T) {
	closed := must(NewRangeAllocation(Protobuf))
	closed.Close()
	for _, o := range []*RangeAllocation{closed, {}, nil} {
		_, form := o.Form()
		_, text := o.Range()
		_, data := o.Data(nil)
		_, encode := o.Encode(nil)
		for _, err := range []error{form, text, data, encode, o.Set("1-2", nil)} {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		if o.Close() != nil {
			t.Error("Close fails")
		}
	}
}
