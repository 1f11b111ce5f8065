package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
)

// watchProxy carries the calls of a server to its etcd, and can hold back the answers of its watches: then nothing that
// the server remembers is up to date, and all else works. TCP cannot be held back so, as calls share connections.
type watchProxy struct {
	address string
	etcd    *grpc.ClientConn
	// held counts the answers that were held back.
	held atomic.Int64

	mutex sync.Mutex
	// released is closed when answers are not held back any more; nil if none are.
	released chan struct{}
}

// startWatchProxy starts a proxy of an etcd, "host:port", until the end of the test.
func startWatchProxy(t *testing.T, etcd string) *watchProxy {
	t.Helper()
	const size = 32 << 20
	options := grpc.WithDefaultCallOptions(grpc.ForceCodecV2(anyMessage{}), grpc.MaxCallRecvMsgSize(size))
	p := &watchProxy{etcd: must(grpc.NewClient(etcd, grpc.WithTransportCredentials(insecure.NewCredentials()), options))}
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	p.address = "http://" + listener.Addr().String()
	server := grpc.NewServer(grpc.ForceServerCodecV2(anyMessage{}), grpc.UnknownServiceHandler(p.carry), grpc.MaxRecvMsgSize(size))
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		p.release()
		server.Stop()
		serving.Wait()
		p.etcd.Close()
	})
	return p
}

// hold holds back what watches answer from now on.
func (p *watchProxy) hold() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.released == nil {
		p.released = make(chan struct{})
	}
}

// release delivers what was held back.
func (p *watchProxy) release() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.released != nil {
		close(p.released)
		p.released = nil
	}
}

func (p *watchProxy) isReleased() <-chan struct{} {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.released == nil {
		return nil
	}
	p.held.Add(1)
	return p.released
}

// carry carries one call.
func (p *watchProxy) carry(_ any, server grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(server)
	ctx := server.Context()
	if values, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, values)
	}
	etcd, err := p.etcd.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		for {
			var request []byte
			if server.RecvMsg(&request) != nil {
				_ = etcd.CloseSend() // it has sent all, or the call has ended
				return
			}
			if etcd.SendMsg(&request) != nil {
				return // RecvMsg returns the error
			}
		}
	}()
	for {
		var answer []byte
		if err := etcd.RecvMsg(&answer); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if strings.HasSuffix(method, "/Watch") {
			if released := p.isReleased(); released != nil {
				select {
				case <-released:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		if err := server.SendMsg(&answer); err != nil {
			return err
		}
	}
}

// anyMessage is the codec of messages that are carried as they are.
type anyMessage struct{}

func (anyMessage) Name() string { return "proto" }

func (anyMessage) Marshal(message any) (mem.BufferSlice, error) {
	bytes, ok := message.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("a message of type %T", message)
	}
	return mem.BufferSlice{mem.SliceBuffer(*bytes)}, nil
}

func (anyMessage) Unmarshal(data mem.BufferSlice, message any) error {
	*message.(*[]byte) = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = anyMessage{}
