package localcluster

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// user is the name of the administrator in the kubeconfig.
const user = "rangekeeper"

// Contexts are the names of the servers in the kubeconfig; the first is the current one.
func (c *Cluster) Contexts() (names []string) {
	for i := range c.servers {
		names = append(names, contextName(i))
	}
	return names
}

func contextName(i int) string {
	if i == 0 {
		return "rangekeeper"
	}
	return fmt.Sprintf("rangekeeper-%d", i+1)
}

// writeKubeconfig writes a file with a context for each server.
func writeKubeconfig(path string, p *pki, servers []*server) error {
	config := api.Config{
		Clusters:       map[string]*api.Cluster{},
		Contexts:       map[string]*api.Context{},
		CurrentContext: contextName(0),
		AuthInfos: map[string]*api.AuthInfo{
			user: {ClientCertificateData: p.admin.certPEM, ClientKeyData: p.admin.keyPEM},
		},
	}
	for i, s := range servers {
		name := contextName(i)
		config.Clusters[name] = &api.Cluster{Server: s.url(), CertificateAuthorityData: p.authority.certPEM}
		config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: user}
	}
	content, err := clientcmd.Write(config)
	if err != nil {
		return err
	}
	return writeFile(path, content)
}

// restConfig is how this process reaches a server.
func (p *pki) restConfig(s *server) *rest.Config {
	return &rest.Config{Host: s.url(), TLSClientConfig: rest.TLSClientConfig{
		CAData: p.authority.certPEM, CertData: p.admin.certPEM, KeyData: p.admin.keyPEM,
	}}
}
