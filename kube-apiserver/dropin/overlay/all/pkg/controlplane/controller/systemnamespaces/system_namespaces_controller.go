package systemnamespaces

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/rangekeeper/rangekeeper/kube-apiserver/dropin/bootstrapplan"
)

// interval is the time from the end of a sync to the next one.
const interval = time.Minute

// Controller creates the system namespaces where they are missing.
type Controller struct {
	client          kubernetes.Interface
	namespaceLister listers.NamespaceLister
	namespaceSynced cache.InformerSynced
	wanted          []string
}

// NewController returns a controller, which Run starts.
func NewController(systemNamespaces []string, clientset kubernetes.Interface, namespaceInformer coreinformers.NamespaceInformer) *Controller {
	return &Controller{
		client:          clientset,
		namespaceLister: namespaceInformer.Lister(),
		namespaceSynced: namespaceInformer.Informer().HasSynced,
		wanted:          append([]string{}, systemNamespaces...),
	}
}

// Run syncs in intervals until stopCh is closed.
func (c *Controller) Run(stopCh <-chan struct{}) {
	defer utilruntime.HandleCrash()
	if !cache.WaitForCacheSync(stopCh, c.namespaceSynced) {
		return
	}
	klog.Info("Keeping the system namespaces")
	wait.Until(c.sync, interval, stopCh)
}

// sync creates the missing namespaces. After an error it goes on with the next one.
func (c *Controller) sync() {
	question := bootstrapplan.NamespacesQuestion{Existing: []string{}, Wanted: c.wanted}
	for _, name := range c.wanted {
		if _, err := c.namespaceLister.Get(name); err == nil {
			question.Existing = append(question.Existing, name)
		}
	}
	answer, err := bootstrapplan.Namespaces(question)
	if err != nil {
		utilruntime.HandleError(err)
		return
	}
	for _, namespace := range answer.Create {
		_, err := c.client.CoreV1().Namespaces().Create(context.Background(), &namespace, metav1.CreateOptions{})
		if err != nil && !errors.IsAlreadyExists(err) {
			utilruntime.HandleError(fmt.Errorf("create the system namespace %q: %w", namespace.Name, err))
		}
	}
}
