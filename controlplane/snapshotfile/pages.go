package snapshotfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
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
// order.
type pageChecker struct {
	ctx      context.Context
	r        io.ReaderAt
	head     header
	seen     []uint64 // one bit per page
	progress *progress
}

// checkPages checks every page that can be reached from head.
func checkPages(ctx context.Context, r io.ReaderAt, size int64, head header, p *progress) error {
	end := p.done + size
	c := &pageChecker{ctx: ctx, r: r, head: head, progress: p, seen: make([]uint64, head.highWater/64+1)}
	if err := c.tree(head.root, nil, nil, 0); err != nil {
		return err
	}
	if err := c.freelist(); err != nil {
		return err
	}
	p.add(end - p.done) // free pages count as checked
	return nil
}

// read returns page id with its overflow pages, and marks them as seen.
func (c *pageChecker) read(id uint64) ([]byte, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	if id < 2 || id >= c.head.highWater {
		return nil, fmt.Errorf("damaged database: page %d does not exist", id)
	}
	var head [pageHeaderSize]byte
	off := int64(id * c.head.pageSize)
	if _, err := c.r.ReadAt(head[:], off); err != nil {
		return nil, err
	}
	pages := uint64(le.Uint32(head[12:])) + 1
	if own := le.Uint64(head[:]); own != id {
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
	page := make([]byte, pages*c.head.pageSize)
	if _, err := c.r.ReadAt(page, off); err != nil {
		return nil, err
	}
	c.progress.add(int64(len(page)))
	return page, nil
}

func (c *pageChecker) isSeen(id uint64) bool { return c.seen[id/64]&(1<<(id%64)) != 0 }

// tree checks the tree below page id, whose keys must lie in [low, high); nil
// stands for no bound.
func (c *pageChecker) tree(id uint64, low, high []byte, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("damaged database: page %d lies too deep", id)
	}
	page, err := c.read(id)
	if err != nil {
		return err
	}
	where := fmt.Sprintf("page %d", id)
	switch le.Uint16(page[8:]) {
	case leafPage:
		return c.leaf(where, page, low, high, depth)
	case branchPage:
		return c.branch(where, page, low, high, depth)
	default:
		return fmt.Errorf("damaged database: %s is neither branch nor leaf", where)
	}
}

// elements calls fn with the fixed part of each element of a page and with the
// bytes that it refers to, which start with the key.
func elements(where string, page []byte, sizes func(el []byte) (pos, key, value uint32), fn func(i int, el, key, value []byte) error) error {
	count := int(le.Uint16(page[10:]))
	if pageHeaderSize+count*elementSize > len(page) {
		return fmt.Errorf("damaged database: %s claims %d elements", where, count)
	}
	for i := range count {
		off := pageHeaderSize + i*elementSize
		el := page[off : off+elementSize]
		pos, key, value := sizes(el)
		start := uint64(off) + uint64(pos)
		mid := start + uint64(key)
		end := mid + uint64(value)
		if end > uint64(len(page)) {
			return fmt.Errorf("damaged database: %s, element %d runs past the page", where, i)
		}
		if err := fn(i, el, page[start:mid], page[mid:end]); err != nil {
			return err
		}
	}
	return nil
}

// inOrder checks one more key of a page against the bounds and the one before.
func inOrder(where string, i int, key, previous, low, high []byte) error {
	if (i > 0 && bytes.Compare(key, previous) <= 0) ||
		(low != nil && bytes.Compare(key, low) < 0) ||
		(high != nil && bytes.Compare(key, high) >= 0) {
		return fmt.Errorf("damaged database: %s, key %d is out of order", where, i)
	}
	return nil
}

func (c *pageChecker) leaf(where string, page, low, high []byte, depth int) error {
	var previous []byte
	return elements(where, page,
		func(el []byte) (uint32, uint32, uint32) {
			return le.Uint32(el[4:]), le.Uint32(el[8:]), le.Uint32(el[12:])
		},
		func(i int, el, key, value []byte) error {
			if err := inOrder(where, i, key, previous, low, high); err != nil {
				return err
			}
			previous = key
			if le.Uint32(el)&bucketElement == 0 {
				return nil
			}
			return c.bucket(fmt.Sprintf("%s, bucket %q", where, key), value, depth+1)
		})
}

// bucket checks the pages of a bucket's value: a tree of its own or, for a
// small one, a leaf page within the value.
func (c *pageChecker) bucket(where string, value []byte, depth int) error {
	if len(value) < bucketSize {
		return fmt.Errorf("damaged database: %s is cut off", where)
	}
	if root := le.Uint64(value); root != 0 {
		return c.tree(root, nil, nil, depth)
	}
	page := value[bucketSize:]
	if len(page) < pageHeaderSize || le.Uint16(page[8:]) != leafPage {
		return fmt.Errorf("damaged database: %s has no inline page", where)
	}
	if depth > maxDepth {
		return fmt.Errorf("damaged database: %s lies too deep", where)
	}
	return c.leaf(where, page, nil, nil, depth)
}

func (c *pageChecker) branch(where string, page, low, high []byte, depth int) error {
	type child struct {
		key []byte
		id  uint64
	}
	var children []child
	err := elements(where, page,
		func(el []byte) (uint32, uint32, uint32) { return le.Uint32(el), le.Uint32(el[4:]), 0 },
		func(i int, el, key, _ []byte) error {
			var previous []byte
			if i > 0 {
				previous = children[i-1].key
			}
			children = append(children, child{key, le.Uint64(el[8:])})
			return inOrder(where, i, key, previous, low, high)
		})
	if err != nil {
		return err
	}
	if len(children) == 0 {
		return fmt.Errorf("damaged database: %s is an empty branch", where)
	}
	for i, ch := range children {
		end := high
		if i+1 < len(children) {
			end = children[i+1].key
		}
		if err := c.tree(ch.id, ch.key, end, depth+1); err != nil {
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
	page, err := c.read(c.head.freelist)
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
