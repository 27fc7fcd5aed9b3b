// Command placement-judge answers where pods may run with the plugins of kube-scheduler itself.
//
// Rust tests use it as the judge of placement. One question a line on standard input, one answer a line on standard output:
//
//	{"nodes": [...], "pods": [...], "namespaces": [...], "asked": [...], "options": {...}}
//
// A question is a cluster and pods that are asked about, each alone. The plugins are NodeUnschedulable, NodeName,
// TaintToleration, NodeAffinity and InterPodAffinity over a snapshot, called in the scheduler's order but, unlike by the
// scheduler, all of them on every node and also for a single node that fits, so that every rejection and every score can be
// compared. The message is that of the scheduler's FitError. Which pods count is decided here as the scheduler's cache does: those
// bound to a known node that are not over, without the asked one.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

type question struct {
	Nodes      []*v1.Node      `json:"nodes"`
	Pods       []*v1.Pod       `json:"pods"`
	Namespaces []*v1.Namespace `json:"namespaces"`
	Asked      []*v1.Pod       `json:"asked"`
	Options    options         `json:"options"`
}

type options struct {
	HardPodAffinityWeight              int32            `json:"hardPodAffinityWeight"`
	IgnorePreferredTermsOfExistingPods bool             `json:"ignorePreferredTermsOfExistingPods"`
	AddedAffinity                      *v1.NodeAffinity `json:"addedAffinity"`
	TolerationComparison               bool             `json:"tolerationComparison"`
}

type verdict struct {
	// Message of the event if nothing fits.
	Message string `json:"message"`
	// ScoreError is why the scheduler would fail when it comes to scores.
	ScoreError string          `json:"scoreError,omitempty"`
	Nodes      map[string]node `json:"nodes"`
	// Nanoseconds that the plugins took.
	Nanoseconds int64 `json:"nanoseconds"`
}

type node struct {
	// Reasons of all plugins, in their order; the scheduler tells the first.
	Reasons []reason         `json:"reasons"`
	Scores  map[string]score `json:"scores"`
}

type reason struct {
	Plugin  string `json:"plugin"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

type score struct {
	Raw        int64 `json:"raw"`
	Normalized int64 `json:"normalized"`
}

func main() {
	if err := silence(); err != nil {
		fmt.Fprintf(os.Stderr, "placement-judge: %v\n", err)
		os.Exit(1)
	}
	metrics.Register()
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "placement-judge: %v\n", err)
		os.Exit(1)
	}
}

// silence keeps what the plugins log, such as every value that is no number, from standard error.
func silence() error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			return err
		}
	}
	klog.SetOutput(io.Discard)
	return nil
}

func run(in io.Reader, out io.Writer) error {
	reader := bufio.NewReaderSize(in, 1<<20)
	writer := bufio.NewWriter(out)
	encoder := json.NewEncoder(writer)
	for {
		line, err := reader.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil && err != io.EOF {
			return err
		}
		var asked question
		if err := json.Unmarshal(line, &asked); err != nil {
			return fmt.Errorf("reading a question: %w", err)
		}
		answer, err := asked.answer(context.Background())
		if err != nil {
			return err
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
		if err := writer.Flush(); err != nil {
			return err
		}
	}
}

func (q *question) answer(ctx context.Context) ([]*verdict, error) {
	gates := map[string]bool{string(features.TaintTolerationComparisonOperators): q.Options.TolerationComparison}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return nil, err
	}
	// One snapshot serves all that do not run in it themselves.
	var shared *plugins
	verdicts := []*verdict{}
	for _, pod := range q.Asked {
		asked, err := shared, error(nil)
		if runs := q.runs(pod); runs || shared == nil {
			if asked, err = q.plugins(ctx, pod); err != nil {
				return nil, err
			}
			if !runs {
				shared = asked
			}
		}
		verdict, err := asked.judge(ctx, pod)
		if err != nil {
			return nil, err
		}
		verdicts = append(verdicts, verdict)
	}
	return verdicts, nil
}

func isItself(pod, asked *v1.Pod) bool {
	return pod.Namespace == asked.Namespace && pod.Name == asked.Name || pod.UID != "" && pod.UID == asked.UID
}

func (q *question) runs(asked *v1.Pod) bool {
	return slices.ContainsFunc(q.Pods, func(pod *v1.Pod) bool { return isItself(pod, asked) })
}

// counted are the pods in the scheduler's cache.
func (q *question) counted(asked *v1.Pod) []*v1.Pod {
	known := map[string]bool{}
	for _, node := range q.Nodes {
		known[node.Name] = true
	}
	counted := []*v1.Pod{}
	for _, pod := range q.Pods {
		isOver := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		if known[pod.Spec.NodeName] && !isItself(pod, asked) && !isOver {
			counted = append(counted, pod)
		}
	}
	return counted
}

// plugins of one snapshot.
type plugins struct {
	infos         []fwk.NodeInfo
	unschedulable fwk.FilterPlugin
	name          fwk.FilterPlugin
	taint         fwk.Plugin
	nodeAffinity  fwk.Plugin
	podAffinity   fwk.Plugin
}

func (q *question) plugins(ctx context.Context, asked *v1.Pod) (*plugins, error) {
	snapshot := cache.NewSnapshot(q.counted(asked), q.Nodes)
	factory := informers.NewSharedInformerFactory(nil, 0)
	for _, namespace := range q.Namespaces {
		if err := factory.Core().V1().Namespaces().Informer().GetStore().Add(namespace); err != nil {
			return nil, err
		}
	}
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithInformerFactory(factory))
	if err != nil {
		return nil, err
	}
	gates := feature.Features{EnableTaintTolerationComparisonOperators: q.Options.TolerationComparison}
	podArgs := &config.InterPodAffinityArgs{
		HardPodAffinityWeight:              q.Options.HardPodAffinityWeight,
		IgnorePreferredTermsOfExistingPods: q.Options.IgnorePreferredTermsOfExistingPods,
	}
	type factoryOf func(context.Context, runtime.Object, fwk.Handle, feature.Features) (fwk.Plugin, error)
	made := []fwk.Plugin{}
	for _, one := range []struct {
		make factoryOf
		args runtime.Object
	}{
		{nodeunschedulable.New, nil},
		{nodename.New, nil},
		{tainttoleration.New, nil},
		{nodeaffinity.New, &config.NodeAffinityArgs{AddedAffinity: q.Options.AddedAffinity}},
		{interpodaffinity.New, podArgs},
	} {
		plugin, err := one.make(ctx, one.args, handle, gates)
		if err != nil {
			return nil, err
		}
		made = append(made, plugin)
	}
	infos, err := snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	sort.Slice(infos, func(i, j int) bool { return infos[i].Node().Name < infos[j].Node().Name })
	return &plugins{
		infos:         infos,
		unschedulable: made[0].(fwk.FilterPlugin),
		name:          made[1].(fwk.FilterPlugin),
		taint:         made[2],
		nodeAffinity:  made[3],
		podAffinity:   made[4],
	}, nil
}

func (p *plugins) judge(ctx context.Context, pod *v1.Pod) (*verdict, error) {
	infos := p.infos
	start := time.Now()
	found := &verdict{Nodes: map[string]node{}}
	state := framework.NewCycleState()
	diagnosis := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	filters := []fwk.FilterPlugin{p.unschedulable, p.name, p.taint.(fwk.FilterPlugin)}
	var names *fwk.PreFilterResult
	ended := false
	for _, plugin := range []fwk.Plugin{p.nodeAffinity, p.podAffinity} {
		result, status := plugin.(fwk.PreFilterPlugin).PreFilter(ctx, state, pod, infos)
		switch {
		case status.IsSkip():
		case !status.IsSuccess():
			// The cycle ends with the first; for comparison all nodes get it, and the other plugins are asked on.
			if !ended {
				diagnosis.PreFilterMsg = status.Message()
			}
			ended = true
			for _, info := range infos {
				add(found, info.Node().Name, plugin, status)
			}
		default:
			names = names.Merge(result)
			filters = append(filters, plugin.(fwk.FilterPlugin))
		}
	}
	if !names.AllNodes() {
		status := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't satisfy plugin(s) [NodeAffinity]")
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		for _, info := range infos {
			if !names.NodeNames.Has(info.Node().Name) {
				add(found, info.Node().Name, p.nodeAffinity, status)
			}
		}
	}
	feasible := []fwk.NodeInfo{}
	for _, info := range infos {
		name := info.Node().Name
		isCandidate := names.AllNodes() || names.NodeNames.Has(name)
		for _, plugin := range filters {
			status := plugin.Filter(ctx, state, pod, info)
			if status.IsSuccess() {
				continue
			}
			// Outside of the names the terms only say so again.
			if !isCandidate && plugin.Name() == p.nodeAffinity.Name() {
				continue
			}
			if isCandidate && len(found.Nodes[name].Reasons) == 0 {
				diagnosis.NodeToStatus.Set(name, status)
			}
			add(found, name, plugin, status)
		}
		if len(found.Nodes[name].Reasons) == 0 {
			feasible = append(feasible, info)
			found.Nodes[name] = node{Reasons: []reason{}, Scores: map[string]score{}}
		}
	}
	if len(feasible) == 0 {
		// Candidates that are absent from the statuses would be counted as outside of the names.
		fit := &framework.FitError{Pod: pod, NumAllNodes: len(infos), Diagnosis: diagnosis}
		found.Message = fit.Error()
		if len(infos) == 0 {
			found.Message = "no nodes available to schedule pods"
		}
	} else if err := p.score(ctx, state, pod, feasible, found); err != nil {
		found.ScoreError = err.Error()
		for _, info := range feasible {
			found.Nodes[info.Node().Name] = node{Reasons: []reason{}, Scores: map[string]score{}}
		}
	}
	found.Nanoseconds = time.Since(start).Nanoseconds()
	return found, nil
}

func add(found *verdict, name string, plugin fwk.Plugin, status *fwk.Status) {
	kind := "Unschedulable"
	if status.Code() == fwk.UnschedulableAndUnresolvable {
		kind = "Unresolvable"
	}
	held := found.Nodes[name]
	held.Reasons = append(held.Reasons, reason{Plugin: plugin.Name(), Kind: kind, Message: status.Message()})
	found.Nodes[name] = held
}

func (p *plugins) score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo, found *verdict) error {
	for _, plugin := range []fwk.Plugin{p.taint, p.nodeAffinity, p.podAffinity} {
		status := plugin.(fwk.PreScorePlugin).PreScore(ctx, state, pod, feasible)
		if status.IsSkip() {
			continue
		}
		if !status.IsSuccess() {
			return status.AsError()
		}
		scorer := plugin.(fwk.ScorePlugin)
		raws := make(fwk.NodeScoreList, len(feasible))
		for i, info := range feasible {
			raw, status := scorer.Score(ctx, state, pod, info)
			if !status.IsSuccess() {
				return status.AsError()
			}
			raws[i] = fwk.NodeScore{Name: info.Node().Name, Score: raw}
		}
		normalized := append(fwk.NodeScoreList{}, raws...)
		if status := scorer.ScoreExtensions().NormalizeScore(ctx, state, pod, normalized); !status.IsSuccess() {
			return status.AsError()
		}
		for i := range raws {
			found.Nodes[raws[i].Name].Scores[plugin.Name()] = score{Raw: raws[i].Score, Normalized: normalized[i].Score}
		}
	}
	return nil
}
