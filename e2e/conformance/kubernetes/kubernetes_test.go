// Package kubernetes is Kubernetes' own end-to-end specs that need no node, in one test binary.
//
// It registers the packages of specs from which e2e/conformance chooses, without the suite that Kubernetes has around
// them: that one waits for ready nodes. The flag --specs names a file with the full texts of the specs to run.
package kubernetes

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/testinit"
	"k8s.io/klog/v2"
	conformancetestdata "k8s.io/kubernetes/test/conformance/testdata"
	commontest "k8s.io/kubernetes/test/e2e/common"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	e2etestingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	testfixtures "k8s.io/kubernetes/test/fixtures"
	_ "k8s.io/kubernetes/test/utils/format"

	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	_ "k8s.io/kubernetes/test/e2e/apps"
	_ "k8s.io/kubernetes/test/e2e/architecture"
	_ "k8s.io/kubernetes/test/e2e/auth"
	_ "k8s.io/kubernetes/test/e2e/instrumentation"
	_ "k8s.io/kubernetes/test/e2e/kubectl"
	_ "k8s.io/kubernetes/test/e2e/network"
	_ "k8s.io/kubernetes/test/e2e/node"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
	_ "k8s.io/kubernetes/test/e2e/storage"
)

var specs = flag.String("specs", "", "a file with the full texts of the specs to run, one a line; all without it")

func TestMain(m *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	for _, files := range []testfiles.FileSource{
		e2etestingmanifests.GetE2ETestingManifestsFS(),
		testfixtures.GetTestFixturesFS(),
		conformancetestdata.GetConformanceTestdataFS(),
	} {
		testfiles.AddFileSource(files)
	}
	framework.AfterReadingAllFlags(&framework.TestContext)
	os.Exit(m.Run())
}

func TestSpecs(t *testing.T) {
	logs.InitLogs()
	defer logs.FlushLogs()
	klog.EnableContextualLogging(true)
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := ginkgo.GinkgoConfiguration()
	suite.RandomizeAllSpecs = true
	if *specs != "" {
		content, err := os.ReadFile(*specs)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range strings.Split(strings.TrimSpace(string(content)), "\n") {
			suite.FocusStrings = append(suite.FocusStrings, fmt.Sprintf("^%s %s$", description, regexp.QuoteMeta(text)))
		}
	}
	ginkgo.RunSpecs(t, description, suite, reporter)
}

const description = "Kubernetes e2e suite"

var _ = ginkgo.SynchronizedBeforeSuite(func(context.Context) []byte {
	return nil
}, func(context.Context, []byte) {
	commontest.CurrentSuite = commontest.E2E
	framework.TestContext.CloudConfig.NumNodes = 0
	framework.TestContext.IPFamily = "ipv4"
})
