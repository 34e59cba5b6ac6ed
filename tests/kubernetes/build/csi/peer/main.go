// The other end of CSI in Go, for tests of ours: a server with the library that kubelets and drivers use, a caller, and
// messages written by the library that everybody else writes them with.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type server struct {
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
}

func (server) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId:      request.Name,
		CapacityBytes: request.GetCapacityRange().GetRequiredBytes(),
		VolumeContext: request.Parameters,
	}}, nil
}

func (server) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return nil, status.Error(codes.FailedPrecondition, request.VolumeId)
}

func (server) NodePublishVolume(ctx context.Context, _ *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	_, limited := ctx.Deadline()
	fmt.Println("begun", limited)
	<-ctx.Done()
	fmt.Println("ended", ctx.Err())
	return nil, ctx.Err()
}

func serve(path string) error {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	found := grpc.NewServer()
	csi.RegisterControllerServer(found, server{})
	csi.RegisterNodeServer(found, server{})
	go func() {
		// The end of our input is a polite end.
		bufio.NewReader(os.Stdin).ReadString('\n')
		found.GracefulStop()
	}()
	fmt.Println("serving")
	return found.Serve(listener)
}

// call makes calls of all sorts and prints what came of them.
func call(path string) error {
	connection, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx := context.Background()
	controller, node := csi.NewControllerClient(connection), csi.NewNodeClient(connection)
	for _, size := range []int{0, 100, 70_000, 3_000_000} {
		made, err := controller.CreateVolume(ctx, &csi.CreateVolumeRequest{Name: strings.Repeat("x", size)})
		fmt.Println("create", len(made.GetVolume().GetVolumeId()), status.Code(err))
	}
	_, err = controller.CreateVolume(ctx, &csi.CreateVolumeRequest{Name: strings.Repeat("x", 5_000_000)})
	fmt.Println("too large", status.Code(err))
	_, err = controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: "ä 100 %\n"})
	fmt.Printf("delete %s %q\n", status.Code(err), status.Convert(err).Message())
	_, err = controller.GetCapacity(ctx, &csi.GetCapacityRequest{})
	fmt.Println("unknown", status.Code(err))
	limited, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = node.NodePublishVolume(limited, &csi.NodePublishVolumeRequest{})
	fmt.Println("limit", status.Code(err))
	cancelled, stop := context.WithCancel(ctx)
	time.AfterFunc(200*time.Millisecond, stop)
	_, err = node.NodePublishVolume(cancelled, &csi.NodePublishVolumeRequest{})
	fmt.Println("cancelled", status.Code(err))
	results := make(chan error)
	for i := range 300 {
		go func() {
			made, err := controller.CreateVolume(ctx, &csi.CreateVolumeRequest{Name: fmt.Sprint(i)})
			if err == nil && made.Volume.VolumeId != fmt.Sprint(i) {
				err = fmt.Errorf("somebody else's answer")
			}
			results <- err
		}()
	}
	failed := 0
	for range 300 {
		if <-results != nil {
			failed++
		}
	}
	fmt.Println("at once", failed)
	return nil
}

// write reads lines of a message's name and its bytes, and prints the bytes that protobuf has for the same message.
func write() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name))
		if err != nil {
			return err
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return err
		}
		message := kind.New().Interface()
		if err := proto.Unmarshal(raw, message); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fresh, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
		if err != nil {
			return err
		}
		fmt.Println(base64.StdEncoding.EncodeToString(fresh), len(message.ProtoReflect().GetUnknown()))
	}
	return lines.Err()
}

func main() {
	var err error
	_ = registration.InfoRequest{}
	switch os.Args[1] {
	case "serve":
		err = serve(os.Args[2])
	case "call":
		err = call(os.Args[2])
	case "write":
		err = write()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
