// Command informer watches PersistentVolumes with client-go's shared informer and tells on stdout what it sees, one
// line an event. The tests run it against both engines. It ends when stdin is closed.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the server")
	binary := flag.Bool("protobuf", false, "ask for protobuf, as Kubernetes' own components do")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	stopOn(err)
	if *binary {
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
		config.ContentType = "application/vnd.kubernetes.protobuf"
	}
	client, err := kubernetes.NewForConfig(config)
	stopOn(err)

	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().PersistentVolumes().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { tell("ADDED", obj) },
		UpdateFunc: func(before, after any) {
			if before.(*corev1.PersistentVolume).ResourceVersion != after.(*corev1.PersistentVolume).ResourceVersion {
				tell("MODIFIED", after)
			}
		},
		DeleteFunc: func(obj any) { tell("DELETED", obj) },
	})
	stopOn(err)

	stop := make(chan struct{})
	factory.Start(stop)
	if !cache.WaitForCacheSync(stop, informer.HasSynced) {
		stopOn(fmt.Errorf("the cache did not fill"))
	}
	fmt.Println("SYNCED")
	_, _ = io.Copy(io.Discard, os.Stdin)
	close(stop)
}

func tell(what string, obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	volume := obj.(*corev1.PersistentVolume)
	fmt.Println(what, volume.Name, volume.Spec.Capacity.Storage().String(), volume.Spec.Local.Path)
}

func stopOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
