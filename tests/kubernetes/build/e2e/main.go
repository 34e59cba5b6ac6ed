// Command e2e is the end-to-end suites of Kubernetes that ask something of the embedded engine, as one program that
// runs against any kubeconfig. Flags are those of Kubernetes' own e2e.test, -ginkgo.* among them.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/testinit"
	"k8s.io/klog/v2"
	conformancetestdata "k8s.io/kubernetes/test/conformance/testdata"
	"k8s.io/kubernetes/test/e2e/common"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	manifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	fixtures "k8s.io/kubernetes/test/fixtures"

	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	_ "k8s.io/kubernetes/test/e2e/apps"
	_ "k8s.io/kubernetes/test/e2e/auth"
	_ "k8s.io/kubernetes/test/e2e/feature"
	_ "k8s.io/kubernetes/test/e2e/kubectl"
	_ "k8s.io/kubernetes/test/e2e/node"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
	_ "k8s.io/kubernetes/test/e2e/storage"

	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/utils/format"
)

var _ = ginkgo.BeforeSuite(func(context.Context) {
	common.CurrentSuite = common.E2E
	// Upstream asks the Service "kubernetes" for its family; this engine has none and is of one family.
	framework.TestContext.IPFamily = "ipv4"
})

// results is where a line is added for each spec: several processes write, and one that is killed loses no other line.
var results = flag.String("results", "", "file for a line of JSON about each spec")

func writeResult(report ginkgo.SpecReport) {
	line, err := json.Marshal(map[string]any{
		"name":    strings.Join(append(report.ContainerHierarchyTexts, report.LeafNodeText), " "),
		"file":    report.LeafNodeLocation.FileName,
		"state":   report.State.String(),
		"seconds": report.RunTime.Seconds(),
		"message": said(report),
	})
	framework.ExpectNoError(err)
	file, err := os.OpenFile(*results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	framework.ExpectNoError(err)
	defer func() { _ = file.Close() }()
	_, err = file.Write(append(line, '\n'))
	framework.ExpectNoError(err)
}

// said is why a spec failed or skipped itself; empty for one that no pattern asked for.
func said(report ginkgo.SpecReport) string {
	if report.State == types.SpecStatePending {
		return "pending"
	}
	text := report.Failure.Message
	if report.State == types.SpecStatePanicked {
		text += " " + report.Failure.ForwardedPanic
	}
	return text
}

// suite tells how the run ended: ginkgo calls Fail instead of returning it in one place.
type suite struct{ failed bool }

func (s *suite) Fail() { s.failed = true }

func main() {
	// ginkgo's own command passes -test.* flags to what it runs.
	testing.Init()
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(manifests.GetE2ETestingManifestsFS())
	testfiles.AddFileSource(fixtures.GetTestFixturesFS())
	testfiles.AddFileSource(conformancetestdata.GetConformanceTestdataFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	// Not before: what stands outside of containers is lost when the framework looks through all specs.
	if *results != "" {
		ginkgo.ReportAfterEach(writeResult)
	}

	logs.InitLogs()
	defer logs.FlushLogs()
	klog.EnableContextualLogging(true)
	gomega.RegisterFailHandler(framework.Fail)
	suiteConfig, reporterConfig := framework.CreateGinkgoConfig()
	run := &suite{}
	passed := ginkgo.RunSpecs(run, "Kubernetes", suiteConfig, reporterConfig)
	logs.FlushLogs()
	if run.failed || !passed {
		os.Exit(1)
	}
}
