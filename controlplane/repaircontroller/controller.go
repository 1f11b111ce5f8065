package repaircontroller

// Controller is one of kube-apiserver's two repair controllers.
type Controller struct {
	// Name is what Events have as their reporting controller.
	Name string
}

var (
	// ClusterIPs repairs ranges of addresses.
	ClusterIPs = Controller{Name: "ipallocator-repair-controller"}
	// NodePorts repairs the range of node ports.
	NodePorts = Controller{Name: "portallocator-repair-controller"}
)
