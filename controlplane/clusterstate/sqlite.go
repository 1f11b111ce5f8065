package clusterstate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// kine keeps each revision of a key as a row: id is the revision, deleted marks a deletion, and create_revision is 0 in
// the row that creates the key.
const (
	kineIntegrity = `PRAGMA integrity_check(1)`
	kineTables    = `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'kine'`
	kineRevision  = `SELECT COALESCE(MAX(id), 0) FROM kine`
	kineLatest    = `SELECT id, name, CASE WHEN created THEN id ELSE create_revision END, value, COALESCE(lease, 0)
FROM kine JOIN (SELECT MAX(id) AS id FROM kine WHERE name >= ? AND name < ? GROUP BY name) USING (id)
WHERE deleted = 0 ORDER BY name`
)

// ReadSQLite reads the state from the SQLite database of kine, in which k3s keeps a cluster, at its newest revision.
// The database may be in use, and is never written to. A write-ahead log beside it (-wal) is a part of it, for which
// SQLite may create an index (-shm); where it cannot, a copy of both in $TMPDIR is read. A database that fails SQLite's
// integrity check is refused. The cost is reading the file and its indexes. Errors name the file and, where it is about
// one, the key. The program imports the driver "sqlite", which is that of modernc.org/sqlite.
func ReadSQLite(ctx context.Context, path string, o Options) (*State, error) {
	s, err := readSQLite(ctx, path, o.prefixes())
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func readSQLite(ctx context.Context, path string, p prefixes) (*State, error) {
	s, err := queryKine(ctx, path, p, nil)
	if codeOf(err) == sqliteCannotOpen {
		// Beside the database SQLite cannot create the index of its log, in which processes share locks. Nobody else
		// uses the database, as the index would be there: without locks it is kept in memory.
		s, err = queryKine(ctx, path, p, withoutIndex)
	}
	switch codeOf(err) {
	case sqliteCorrupt:
		return nil, damaged(err)
	case sqliteNoDatabase:
		return nil, errors.New("is not a database of SQLite; unpack one that is compressed, and read an etcd snapshot with --etcd-snapshot")
	}
	return s, err
}

// withoutIndex are the parameters by which SQLite reads a log without an index on disk,
// https://sqlite.org/wal.html#noshm.
var withoutIndex = url.Values{"vfs": {map[bool]string{true: "win32-none", false: "unix-none"}[runtime.GOOS == "windows"]}, "_pragma": {"locking_mode(exclusive)"}}

// Result codes of SQLite, https://sqlite.org/rescode.html.
const (
	sqliteCorrupt    = 11
	sqliteCannotOpen = 14
	sqliteNoDatabase = 26
)

// codeOf returns the primary result code of SQLite's error, else 0.
func codeOf(err error) int {
	var coded interface{ Code() int }
	if !errors.As(err, &coded) {
		return 0
	}
	return coded.Code() & 0xff
}

func damaged(err error) error {
	return fmt.Errorf("damaged: %w. Often the log beside a database (-wal) is of another time than the database, as after "+
		"a backup was put back: take both from one copy", err)
}

func queryKine(ctx context.Context, path string, p prefixes, more url.Values) (*State, error) {
	name, err := sqliteName(path, more)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // one revision for all queries
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	// SQLite answers from damaged pages and from an index that lacks rows, too.
	var integrity string
	if err := tx.QueryRowContext(ctx, kineIntegrity).Scan(&integrity); err != nil {
		return nil, err
	}
	if integrity != "ok" {
		return nil, damaged(errors.New(integrity[strings.LastIndexByte(integrity, '\n')+1:])) // below a title
	}
	tables := 0
	if err := tx.QueryRowContext(ctx, kineTables).Scan(&tables); err != nil {
		return nil, err
	}
	if tables == 0 {
		return nil, errors.New("is not a database of kine: it has no table kine")
	}
	s := p.state()
	s.Kine = true
	if err := tx.QueryRowContext(ctx, kineRevision).Scan(&s.Revision); err != nil {
		return nil, err
	}
	if s.Revision == 0 {
		return nil, errors.New("the table kine is empty")
	}
	for _, prefix := range p.all() {
		if err := s.addRows(ctx, tx, p, prefix); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// sqliteName returns the driver's name of a database that is only read, with more parameters.
func sqliteName(path string, more url.Values) (string, error) {
	file, err := os.Open(path) // its error is clearer than the driver's
	if err != nil {
		return "", err
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil {
		return "", err
	}
	if !about.Mode().IsRegular() {
		return "", errors.New("is not a regular file")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	parameters := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(10000)"}}
	for key, values := range more {
		parameters[key] = append(parameters[key], values...)
	}
	// Without a log (-wal) and its index (-shm) the file is a complete copy that nobody writes. It may lie where SQLite
	// cannot create an index, which it would do otherwise.
	log, err := os.Stat(path + "-wal")
	noLog := errors.Is(err, os.ErrNotExist) || err == nil && log.Size() == 0
	if _, err := os.Stat(path + "-shm"); noLog && errors.Is(err, os.ErrNotExist) {
		parameters.Set("immutable", "1")
	}
	return (&url.URL{Scheme: "file", Path: absolute, RawQuery: parameters.Encode()}).String(), nil
}

// addRows decodes the newest revisions of the keys with a prefix.
func (s *State) addRows(ctx context.Context, tx *sql.Tx, p prefixes, prefix string) error {
	rows, err := tx.QueryContext(ctx, kineLatest, prefix, clientv3.GetPrefixRangeEnd(prefix))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var kv mvccpb.KeyValue
		var key string
		if err := rows.Scan(&kv.ModRevision, &key, &kv.CreateRevision, &kv.Value, &kv.Lease); err != nil {
			return err
		}
		kv.Key = []byte(key)
		s.add(p, &kv)
	}
	return rows.Err()
}
