package source

import (
	"context"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
)

// ServerVersions returns the versions of the servers that were read, by address, or the errors of those that do not
// answer; nothing for a file.
func (s *Source) ServerVersions(ctx context.Context) map[string]string {
	all := map[string]string{}
	if !s.Online() {
		return all
	}
	ctx, cancel := context.WithTimeout(ctx, ranges.OperationTimeout)
	defer cancel()
	if s.OverAPI() {
		release, err := s.release(ctx)
		if err != nil {
			release = err.Error()
		}
		all[s.server] = release
		return all
	}
	for _, endpoint := range s.connection.Endpoints() {
		client, err := s.connect(ctx)
		if err == nil {
			status, failed := client.Status(ctx, endpoint)
			if err = failed; err == nil {
				all[endpoint] = "etcd " + status.Version
			}
		}
		if err != nil {
			all[endpoint] = err.Error()
		}
	}
	return all
}

// release returns that of the API server.
func (s *Source) release(ctx context.Context) (string, error) {
	config, err := s.kube.config()
	if err != nil {
		return "", err
	}
	release, err := clusterstate.ReadRelease(ctx, config)
	return "kube-apiserver " + release, err
}
