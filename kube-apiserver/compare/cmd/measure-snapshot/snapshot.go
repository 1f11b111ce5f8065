package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"os"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime"
)

// perTransaction is how many objects are written at once.
const perTransaction = 20_000

// writer writes the database of an etcd: one revision for each object, as if the cluster had been compacted.
type writer struct {
	db       *bolt.DB
	tx       *bolt.Tx
	revision int64
}

// writeSnapshot writes what `etcdctl snapshot save` would of a cluster: a database with the buckets that etcd makes,
// and its sha256.
func (c cluster) writeSnapshot(path string) error {
	os.Remove(path)
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return err
	}
	w := &writer{db: db, revision: 1}
	if err := errors.Join(w.write(c), db.Close()); err != nil {
		return err
	}
	return seal(path)
}

func (w *writer) write(c cluster) (err error) {
	if w.tx, err = w.db.Begin(true); err != nil {
		return err
	}
	for _, name := range []string{"alarm", "auth", "authRoles", "authUsers", "cluster", "key", "lease", "members", "meta"} {
		if _, err := w.tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return err
		}
	}
	for key, object := range map[string]struct {
		version, kind string
		o             interface{ Marshal() ([]byte, error) }
	}{
		"/registry/servicecidrs/kubernetes":                               {"networking.k8s.io/v1", "ServiceCIDR", serviceCIDR()},
		"/registry/ranges/servicenodeports":                               {"v1", "RangeAllocation", nodePortBitmap()},
		"/registry/apiregistration.k8s.io/apiservices/v1.resource.k8s.io": {"v1", "APIService", &runtime.Unknown{}},
	} {
		if err := w.put(key, object.version, object.kind, object.o); err != nil {
			return err
		}
	}
	for i := range c.services {
		service := c.service(i)
		if !c.isLost(i) { // a kube-apiserver creates it first
			ip := c.ipAddress(i)
			if err := w.put("/registry/ipaddresses/"+ip.Name, "networking.k8s.io/v1", "IPAddress", ip); err != nil {
				return err
			}
		}
		if err := w.put("/registry/services/specs/"+service.Namespace+"/"+service.Name, "v1", "Service", service); err != nil {
			return err
		}
	}
	meta := w.tx.Bucket([]byte("meta"))
	if err := meta.Put([]byte("finishedCompactRev"), revisionKey(w.revision)); err != nil {
		return err
	}
	return w.tx.Commit()
}

func revisionKey(main int64) []byte {
	key := make([]byte, 17)
	binary.BigEndian.PutUint64(key, uint64(main))
	key[8] = '_'
	return key
}

func (w *writer) put(key, version, kind string, o interface{ Marshal() ([]byte, error) }) error {
	raw, err := o.Marshal()
	if err != nil {
		return err
	}
	value, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: raw}).Marshal()
	if err != nil {
		return err
	}
	w.revision++
	stored, err := proto.Marshal(&mvccpb.KeyValue{
		Key: []byte(key), Value: append([]byte("k8s\x00"), value...), CreateRevision: w.revision, ModRevision: w.revision, Version: 1,
	})
	if err != nil {
		return err
	}
	keys := w.tx.Bucket([]byte("key"))
	keys.FillPercent = 0.9 // as etcd, which only appends
	if err := keys.Put(revisionKey(w.revision), stored); err != nil {
		return err
	}
	if w.revision%perTransaction != 0 {
		return nil
	}
	if err := w.tx.Commit(); err != nil {
		return err
	}
	w.tx, err = w.db.Begin(true)
	return err
}

// seal cuts off the pages that bbolt has allocated ahead, and appends the sha256.
func seal(path string) error {
	db, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	var size int64
	err = db.View(func(tx *bolt.Tx) error {
		size = tx.Size()
		return nil
	})
	if err = errors.Join(err, db.Close(), os.Truncate(path, size)); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return err
	}
	_, err = file.Write(h.Sum(nil))
	return err
}
