package snapshotfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
)

// bbolt has a check of its own, Tx.Check. It cannot serve here: it need not end on a damaged file, and it reads the
// mapped file in a goroutine of its own, where a fault ends the process.

// The layout of a bbolt file, format version 2. All numbers are little-endian on
// the machines etcd supports.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeaderSize = 16
	elementSize    = 16 // of a branch and of a leaf element alike
	metaSize       = 64
	bucketSize     = 16

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10

	bucketElement = 0x01

	noFreelist = ^uint64(0)

	minPageSize = 4 << 10
	maxPageSize = 16 << 20

	// maxDepth is far above the depth of a real tree: at two children per page it
	// is more pages than a file can have.
	maxDepth = 64
)

var le = binary.LittleEndian

// header is the part of a bbolt meta page that a reader needs.
type header struct {
	pageSize  uint64
	root      uint64
	freelist  uint64
	highWater uint64 // the first page number that is not in use
	txid      uint64
}

// parseHeader reads a meta page; false if it is none or its checksum is wrong.
func parseHeader(page []byte) (header, bool) {
	m := page[pageHeaderSize:]
	h := fnv.New64a()
	h.Write(m[:metaSize-8])
	if le.Uint32(m) != boltMagic || le.Uint32(m[4:]) != boltVersion || le.Uint64(m[metaSize-8:]) != h.Sum64() {
		return header{}, false
	}
	return header{
		pageSize:  uint64(le.Uint32(m[8:])),
		root:      le.Uint64(m[16:]),
		freelist:  le.Uint64(m[32:]),
		highWater: le.Uint64(m[40:]),
		txid:      le.Uint64(m[48:]),
	}, true
}

// readHeader finds the meta page that bbolt will use: of the two at the start of
// the file the valid one with the higher transaction number.
func readHeader(r io.ReaderAt, size int64) (header, error) {
	at := func(off int64) (header, bool) {
		var buf [pageHeaderSize + metaSize]byte
		if _, err := r.ReadAt(buf[:], off); err != nil {
			return header{}, false
		}
		return parseHeader(buf[:])
	}
	first, ok := at(0)
	// Without the first, the second can only be found by trying page sizes.
	for pageSize := int64(minPageSize); !ok && pageSize <= maxPageSize; pageSize *= 2 {
		first, ok = at(pageSize)
	}
	if !ok {
		return header{}, errors.New("not an etcd snapshot: no database header")
	}
	if first.pageSize < minPageSize || first.pageSize > maxPageSize || first.pageSize&(first.pageSize-1) != 0 {
		return header{}, fmt.Errorf("damaged database: page size %d", first.pageSize)
	}
	head := first
	if second, ok := at(int64(first.pageSize)); ok && second.txid > head.txid {
		head = second
	}
	if head.pageSize != first.pageSize {
		return header{}, fmt.Errorf("damaged database: page size both %d and %d", first.pageSize, head.pageSize)
	}
	if have := uint64(size) / head.pageSize; head.highWater > have {
		return header{}, fmt.Errorf("cut off: has %d pages of %d bytes, its header counts %d", have, head.pageSize, head.highWater)
	}
	return head, nil
}

// pageChecker walks all trees of a bbolt file and makes sure that bbolt can do
// the same without leaving a page, following a cycle or finding keys out of
// order. On the way it hands over what lies in the buckets.
type pageChecker struct {
	ctx      context.Context
	r        io.ReaderAt
	head     header
	seen     []uint64 // one bit per page
	progress *progress
	// visit, if set, is called with each bucket of the root, whose own name is empty, and then with each key of that
	// bucket, in their order; a bucket has no value. It must not keep its arguments.
	visit func(bucket string, key, value []byte) error
	// pages are the pages on the way from the root to the one that is checked.
	pages [maxDepth + 2][]byte
	// ahead are the pages from aheadAt on, read at once as pages that follow each other are.
	ahead   []byte
	aheadAt uint64
	last    uint64
}

// readAhead is how many pages are read at once.
const readAhead = 16

// checkPages checks every page that can be reached from head.
func checkPages(ctx context.Context, r io.ReaderAt, size int64, head header, p *progress, visit func(bucket string, key, value []byte) error) error {
	end := p.done + size
	c := &pageChecker{ctx: ctx, r: r, head: head, progress: p, seen: make([]uint64, head.highWater/64+1), visit: visit}
	if err := c.tree(head.root, nil, nil, place{}); err != nil {
		return err
	}
	if err := c.freelist(); err != nil {
		return err
	}
	p.add(end - p.done) // free pages count as checked
	return nil
}

// place is where a page lies.
type place struct {
	depth int
	// bucket is that of the root, empty in the root itself; isNested says that it is a bucket within that one.
	bucket   string
	isNested bool
}

func (p place) below() place {
	p.depth++
	return p
}

// within is the place of the content of a bucket with this name.
func (p place) within(name []byte) place {
	p = p.below()
	if p.bucket == "" {
		p.bucket = string(name)
	} else {
		p.isNested = true
	}
	return p
}

// where names a page, or the inline page of a bucket in it.
type where struct {
	id     uint64
	bucket []byte
}

func (w where) String() string {
	if w.bucket != nil {
		return fmt.Sprintf("page %d, bucket %q", w.id, w.bucket)
	}
	return fmt.Sprintf("page %d", w.id)
}

// read returns page id with its overflow pages, and marks them as seen. It stays until the next read at this depth.
func (c *pageChecker) read(id uint64, depth int) ([]byte, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	if id < 2 || id >= c.head.highWater {
		return nil, fmt.Errorf("damaged database: page %d does not exist", id)
	}
	first, err := c.readOne(id)
	if err != nil {
		return nil, err
	}
	pages := uint64(le.Uint32(first[12:])) + 1
	if own := le.Uint64(first); own != id {
		return nil, fmt.Errorf("damaged database: page %d says it is page %d", id, own)
	}
	if pages > c.head.highWater-id {
		return nil, fmt.Errorf("damaged database: page %d runs past the last page", id)
	}
	for i := id; i < id+pages; i++ {
		if c.isSeen(i) {
			return nil, fmt.Errorf("damaged database: page %d is used twice", i)
		}
		c.seen[i/64] |= 1 << (i % 64)
	}
	page := append(c.pages[depth][:0], first...)
	if rest := int(pages-1) * int(c.head.pageSize); rest > 0 {
		page = slices.Grow(page, rest)[:len(first)+rest]
		if _, err := c.r.ReadAt(page[len(first):], int64((id+1)*c.head.pageSize)); err != nil {
			return nil, err
		}
	}
	c.pages[depth] = page
	c.last = id + pages - 1
	c.progress.add(int64(len(page)))
	return page, nil
}

// readOne returns one page, until the next call.
func (c *pageChecker) readOne(id uint64) ([]byte, error) {
	size := int(c.head.pageSize)
	if at := int(id-c.aheadAt) * size; id >= c.aheadAt && at+size <= len(c.ahead) {
		return c.ahead[at : at+size], nil
	}
	count := 1
	if id == c.last+1 {
		count = int(min(readAhead, c.head.highWater-id))
	}
	c.ahead, c.aheadAt = slices.Grow(c.ahead[:0], count*size)[:count*size], id
	if _, err := c.r.ReadAt(c.ahead, int64(id)*int64(size)); err != nil {
		c.ahead = nil
		return nil, err
	}
	return c.ahead[:size], nil
}

func (c *pageChecker) isSeen(id uint64) bool { return c.seen[id/64]&(1<<(id%64)) != 0 }

// tree checks the tree below page id, whose keys must lie in [low, high); nil
// stands for no bound.
func (c *pageChecker) tree(id uint64, low, high []byte, at place) error {
	if at.depth > maxDepth {
		return fmt.Errorf("damaged database: page %d lies too deep", id)
	}
	page, err := c.read(id, at.depth)
	if err != nil {
		return err
	}
	on := where{id: id}
	switch le.Uint16(page[8:]) {
	case leafPage:
		return c.leaf(on, page, low, high, at)
	case branchPage:
		return c.branch(on, page, low, high, at)
	default:
		return fmt.Errorf("damaged database: %s is neither branch nor leaf", on)
	}
}

// elements calls fn with the fixed part of each element of a page and with the
// bytes that it refers to, which start with the key.
func elements(on where, page []byte, sizes func(el []byte) (pos, key, value uint32), fn func(i int, el, key, value []byte) error) error {
	count := int(le.Uint16(page[10:]))
	if pageHeaderSize+count*elementSize > len(page) {
		return fmt.Errorf("damaged database: %s claims %d elements", on, count)
	}
	for i := range count {
		off := pageHeaderSize + i*elementSize
		el := page[off : off+elementSize]
		pos, key, value := sizes(el)
		start := uint64(off) + uint64(pos)
		mid := start + uint64(key)
		end := mid + uint64(value)
		if end > uint64(len(page)) {
			return fmt.Errorf("damaged database: %s, element %d runs past the page", on, i)
		}
		if err := fn(i, el, page[start:mid], page[mid:end]); err != nil {
			return err
		}
	}
	return nil
}

// inOrder checks one more key of a page against the bounds and the one before.
func inOrder(on where, i int, key, previous, low, high []byte) error {
	if (i > 0 && bytes.Compare(key, previous) <= 0) ||
		(low != nil && bytes.Compare(key, low) < 0) ||
		(high != nil && bytes.Compare(key, high) >= 0) {
		return fmt.Errorf("damaged database: %s, key %d is out of order", on, i)
	}
	return nil
}

func (c *pageChecker) leaf(on where, page, low, high []byte, at place) error {
	var previous []byte
	return elements(on, page,
		func(el []byte) (uint32, uint32, uint32) {
			return le.Uint32(el[4:]), le.Uint32(el[8:]), le.Uint32(el[12:])
		},
		func(i int, el, key, value []byte) error {
			if err := inOrder(on, i, key, previous, low, high); err != nil {
				return err
			}
			previous = key
			isBucket := le.Uint32(el)&bucketElement != 0
			if c.visit != nil && !at.isNested && (isBucket || at.bucket != "") {
				content := value
				if isBucket {
					content = nil
				}
				if err := c.visit(at.bucket, key, content); err != nil {
					return err
				}
			}
			if !isBucket {
				return nil
			}
			return c.bucket(where{on.id, key}, value, at.within(key))
		})
}

// bucket checks the pages of a bucket's value: a tree of its own or, for a
// small one, a leaf page within the value.
func (c *pageChecker) bucket(on where, value []byte, at place) error {
	if len(value) < bucketSize {
		return fmt.Errorf("damaged database: %s is cut off", on)
	}
	if root := le.Uint64(value); root != 0 {
		return c.tree(root, nil, nil, at)
	}
	page := value[bucketSize:]
	if len(page) < pageHeaderSize || le.Uint16(page[8:]) != leafPage {
		return fmt.Errorf("damaged database: %s has no inline page", on)
	}
	if at.depth > maxDepth {
		return fmt.Errorf("damaged database: %s lies too deep", on)
	}
	return c.leaf(on, page, nil, nil, at)
}

func (c *pageChecker) branch(on where, page, low, high []byte, at place) error {
	type child struct {
		key []byte
		id  uint64
	}
	children := make([]child, 0, le.Uint16(page[10:]))
	err := elements(on, page,
		func(el []byte) (uint32, uint32, uint32) { return le.Uint32(el), le.Uint32(el[4:]), 0 },
		func(i int, el, key, _ []byte) error {
			var previous []byte
			if i > 0 {
				previous = children[i-1].key
			}
			children = append(children, child{key, le.Uint64(el[8:])})
			return inOrder(on, i, key, previous, low, high)
		})
	if err != nil {
		return err
	}
	if len(children) == 0 {
		return fmt.Errorf("damaged database: %s is an empty branch", on)
	}
	for i, ch := range children {
		end := high
		if i+1 < len(children) {
			end = children[i+1].key
		}
		if err := c.tree(ch.id, ch.key, end, at.below()); err != nil {
			return err
		}
	}
	return nil
}

// freelist checks the list of free pages, if the file holds one: a writer would
// overwrite a page that is listed there by mistake. It runs after the trees.
func (c *pageChecker) freelist() error {
	if c.head.freelist == noFreelist {
		return nil
	}
	page, err := c.read(c.head.freelist, 0)
	if err != nil {
		return err
	}
	if le.Uint16(page[8:]) != freelistPage {
		return fmt.Errorf("damaged database: page %d is not the free list", c.head.freelist)
	}
	count, ids := uint64(le.Uint16(page[10:])), page[pageHeaderSize:]
	if count == 0xffff { // then the count is too large for the page's header
		count, ids = le.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids))/8 {
		return errors.New("damaged database: the free list runs past its page")
	}
	for ; count > 0; count, ids = count-1, ids[8:] {
		id := le.Uint64(ids)
		if id < 2 || id >= c.head.highWater || c.isSeen(id) {
			return fmt.Errorf("damaged database: page %d is listed as free", id)
		}
		c.seen[id/64] |= 1 << (id % 64)
	}
	return nil
}
