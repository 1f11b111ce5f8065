package clusterstate

import (
	"bytes"
	"cmp"
	"errors"
	"iter"
	"slices"

	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
)

// changes are those of the keys with one prefix, in the order of revisions, as flat bytes: a snapshot has millions of
// them.
type changes struct {
	chunks  [][]byte
	entries []entry
	// bytes are those of the chunks, and settled how many of them were there after the last call of settle.
	bytes, settled int
	record         []byte
}

// entry is where a change lies: the key without its prefix, an outcome, and what there is to it.
type entry struct {
	chunk, at, key, content uint32
}

// change is the newest one of a key that is there.
type change struct {
	outcome byte
	content []byte
}

// The outcomes of a change.
const (
	isDeletion byte = iota
	// isRecord: the content is that of a list of package servicebatch.
	isRecord
	// isUnreadable: the content says why.
	isUnreadable
	// isEncrypted: the content is [EncryptedError.Provider].
	isEncrypted
	// isDamaged: the content says why.
	isDamaged
)

const (
	chunkSize = 1 << 20
	// unsettled is how many bytes may be those of changes that others have replaced.
	unsettled = 64 << 20
)

// add adds a change of the key with this name after the prefix, which record makes a record of.
func (c *changes) add(name []byte, r *snapshotfile.Revision, record func(dst []byte) ([]byte, error)) {
	outcome, content, err := isRecord, c.record[:0], error(nil)
	switch {
	case r.IsDeletion:
		outcome = isDeletion
	case r.Damage != nil:
		outcome, content = isDamaged, append(content, r.Damage.Error()...)
	default:
		content, err = record(content)
		if encrypted := (*EncryptedError)(nil); errors.As(err, &encrypted) {
			outcome, content = isEncrypted, append(c.record[:0], encrypted.Provider...)
		} else if err != nil {
			outcome, content = isUnreadable, append(c.record[:0], err.Error()...)
		}
	}
	c.record = content
	c.put(name, outcome, content)
	if c.bytes > 2*c.settled+unsettled {
		c.settle()
	}
}

func (c *changes) put(key []byte, outcome byte, content []byte) {
	size := len(key) + 1 + len(content)
	last := len(c.chunks) - 1
	if last < 0 || len(c.chunks[last])+size > cap(c.chunks[last]) {
		c.chunks = append(c.chunks, make([]byte, 0, max(chunkSize, size)))
		last++
	}
	c.entries = append(c.entries, entry{uint32(last), uint32(len(c.chunks[last])), uint32(len(key)), uint32(len(content))})
	c.chunks[last] = append(append(append(c.chunks[last], key...), outcome), content...)
	c.bytes += size
}

func (c *changes) keyOf(e entry) []byte { return c.chunks[e.chunk][e.at:][:e.key] }

// settle sorts the changes by key and drops those that others have replaced.
func (c *changes) settle() {
	slices.SortFunc(c.entries, func(a, b entry) int { // later changes lie behind earlier ones
		return cmp.Or(bytes.Compare(c.keyOf(a), c.keyOf(b)), cmp.Compare(a.chunk, b.chunk), cmp.Compare(a.at, b.at))
	})
	newest := c.entries[:0]
	for i, e := range c.entries {
		if i+1 == len(c.entries) || !bytes.Equal(c.keyOf(e), c.keyOf(c.entries[i+1])) {
			newest = append(newest, e)
		}
	}
	if c.entries = newest; c.bytes <= 2*c.settled+unsettled {
		return // at the end
	}
	kept := changes{record: c.record}
	for _, e := range newest {
		rest := c.chunks[e.chunk][e.at+e.key:]
		kept.put(c.keyOf(e), rest[0], rest[1:][:e.content])
	}
	kept.settled = kept.bytes
	*c = kept
}

// newest returns the newest changes by key, without its prefix, and no deletions.
func (c *changes) newest() iter.Seq2[[]byte, change] {
	c.settle()
	return func(yield func([]byte, change) bool) {
		for _, e := range c.entries {
			rest := c.chunks[e.chunk][e.at+e.key:]
			if rest[0] != isDeletion && !yield(c.keyOf(e), change{rest[0], rest[1:][:e.content]}) {
				return
			}
		}
	}
}
