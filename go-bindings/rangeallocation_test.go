package rangekeeper

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every value that a kube-apiserver wrote is encoded to the same bytes, as it is and after a rewrite of its own
// content.
func TestStoredValuesRoundTrip(t *testing.T) {
	files := must(filepath.Glob("testdata/kube-*/*.bin.gz"))
	if len(files) == 0 {
		t.Fatal("no stored values in testdata")
	}
	for _, name := range files {
		file := must(os.Open(name))
		stored := must(io.ReadAll(must(gzip.NewReader(file))))
		file.Close()
		o := must(DecodeRangeAllocation(stored))
		text, data := must(o.Range()), must(o.Data(nil))
		if text == "" || !bytes.Equal(must(o.Encode(nil)), stored) {
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

// storedJSON is the other form, with a field that the library does not know.
const storedJSON = `{"kind":"RangeAllocation","apiVersion":"v1","metadata":{"name":"old"},"range":"1-10","data":"BQ==","x":1}`

func TestRangeAllocationJSON(t *testing.T) {
	o := must(DecodeRangeAllocation([]byte(storedJSON)))
	defer o.Close()
	if must(o.Range()) != "1-10" || !bytes.Equal(must(o.Data(nil)), []byte{5}) {
		t.Error("JSON is not read as it was written")
	}
	if err := o.Set("1-20", []byte{6}); err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("1-10", "1-20", "BQ==", "Bg==").Replace(storedJSON)
	if rewritten := must(o.Encode(nil)); string(rewritten) != want {
		t.Errorf("%s, want %s", rewritten, want)
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, stored := range [][]byte{nil, []byte("x"), []byte("{"), []byte("k8s\x00"), []byte(storedJSON[:len(storedJSON)/2])} {
		var decode *DecodeError
		_, err := DecodeRangeAllocation(stored)
		if !errors.As(err, &decode) || decode.Message == "" || decode.Offset > uint64(len(stored)) || errors.Is(err, ErrEncrypted) {
			t.Errorf("%q: %v", stored, err)
		}
	}
	if _, err := DecodeRangeAllocation([]byte("k8s:enc:aescbc:v1:key1:...")); !errors.Is(err, ErrEncrypted) {
		t.Error(err)
	}
}

func TestRangeAllocationAfterClose(t *testing.T) {
	closed := must(DecodeRangeAllocation([]byte(storedJSON)))
	closed.Close()
	for _, o := range []*RangeAllocation{closed, {}, nil} {
		_, text := o.Range()
		_, data := o.Data(nil)
		_, encode := o.Encode(nil)
		for _, err := range []error{text, data, encode, o.Set("1-2", nil)} {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		if o.Close() != nil {
			t.Error("Close fails")
		}
	}
}
