package localcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/child"
)

const (
	// readyTimeout is for a machine that does much else; alone it takes some seconds.
	readyTimeout = 5 * time.Minute
	// stopTimeout is longer than a server waits for requests that are under way.
	stopTimeout = 90 * time.Second
	// requestTimeout bounds a question whether a server is ready.
	requestTimeout = 10 * time.Second
	readyInterval  = 100 * time.Millisecond
	// progressInterval is the time between two lines about the same wait.
	progressInterval = 5 * time.Second
	// logLines and logBytes are how much of its log is shown when a server has failed.
	logLines = 20
	logBytes = 16 << 10
)

// readyPaths must all be found before a server is ready. The Service kubernetes is the
// last thing that servers make in a new cluster, and itself has a ClusterIP: from then on
// others can be created.
var readyPaths = []string{"/readyz", "/api/v1/namespaces/default/services/kubernetes"}

// server is one kube-apiserver.
type server struct {
	name, address, logFile string
	child                  *child.Process // nil before its start
}

func (s *server) url() string { return "https://" + s.address }

// checkFree says in time that an address is taken: in the log of a server it is found
// only with its end.
func checkFree(address string) error {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return &PortTakenError{APIServer, address}
	}
	if err != nil {
		return err
	}
	return l.Close()
}

func (s *server) start(program string, flags []string) error {
	mode := os.O_TRUNC
	if s.child != nil { // its log says why it has ended
		mode = os.O_APPEND
	}
	log, err := os.OpenFile(s.logFile, os.O_WRONLY|os.O_CREATE|mode, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	command := exec.Command(program, flags...)
	command.Stdout, command.Stderr = log, log
	if s.child, err = child.Start(command); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

func (s *server) waitUntilReady(ctx context.Context, config *rest.Config, progress func(string)) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	begin := time.Now()
	reported := begin
	for {
		why := s.ready(ctx, client)
		if why == nil {
			progress(s.name + " is ready")
			return nil
		}
		if time.Since(reported) > progressInterval {
			reported = time.Now()
			progress(fmt.Sprintf("waiting for %s since %v: %v", s.name, time.Since(begin).Round(time.Second), why))
		}
		select {
		case <-s.child.Ended():
			return s.ended("ended before it was ready")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(readyInterval):
		}
		if time.Since(begin) > readyTimeout {
			return s.failed(fmt.Sprintf("is not ready after %v: %v", readyTimeout, why))
		}
	}
}

func (s *server) ready(ctx context.Context, client *http.Client) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for _, path := range readyPaths {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url()+path, nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, answer.Status)
		}
	}
	return nil
}

// ended returns the error of a server that has ended by itself.
func (s *server) ended(what string) error {
	return s.failed(what + ", " + s.how())
}

// how says how a server has ended.
func (s *server) how() string {
	if err := s.child.Err(); err != nil {
		return err.Error()
	}
	return "exit code 0"
}

// failed returns an error with the end of the log.
func (s *server) failed(what string) error {
	return &serverError{fmt.Sprintf("%s %s; its log, %s, ends with\n\n%s", s.name, what, s.logFile, logEnd(s.logFile))}
}

type serverError struct{ text string }

func (e *serverError) Error() string        { return e.text }
func (e *serverError) Is(target error) bool { return target == ErrServer }

// logEnd is the last lines of a file.
func logEnd(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return []byte(err.Error())
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		f.Seek(max(0, size-logBytes), io.SeekStart) // else it is read from where it is
	}
	end, err := io.ReadAll(f)
	if err != nil {
		return []byte(err.Error())
	}
	lines := bytes.Split(bytes.TrimSpace(end), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-logLines):], []byte("\n"))
}

// stop ends a server in order, if it runs.
func (s *server) stop(progress func(string)) error {
	if s.child == nil {
		return nil
	}
	select {
	case <-s.child.Ended():
		return nil // it has ended by itself, which was reported
	default:
	}
	progress("stopping " + s.name)
	s.child.Signal(syscall.SIGTERM) // fails only if it has ended
	late := time.NewTimer(stopTimeout)
	defer late.Stop()
	select {
	case <-s.child.Ended():
		if s.child.Err() != nil {
			return s.ended("was stopped and ended")
		}
		return nil
	case <-late.C:
		s.child.Kill()
		return s.failed(fmt.Sprintf("ran on for %v after SIGTERM and was killed", stopTimeout))
	}
}
