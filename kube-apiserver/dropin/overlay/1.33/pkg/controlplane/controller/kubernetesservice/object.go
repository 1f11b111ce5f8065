package kubernetesservice

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deleteAddress deletes the IPAddress object of the Service, if there is one.
func (c *Controller) deleteAddress(ctx context.Context, name string) error {
	objects := c.client.NetworkingV1().IPAddresses()
	object, err := objects.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) { // also if there are no such objects
		return nil
	}
	if err != nil {
		return err
	}
	parent := object.Spec.ParentRef
	if parent == nil || parent.Group != "" || parent.Resource != "services" || parent.Namespace != metav1.NamespaceDefault || parent.Name != serviceName {
		return fmt.Errorf("IPAddress %s is not of Service %q", name, serviceName)
	}
	return objects.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}})
}
