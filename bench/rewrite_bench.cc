// Benchmarks of rewrites: find all matches of many rules, keep them up to date, and apply rules.
#include <benchmark/benchmark.h>

#include <random>

#include "models/model.h"
#include "ops/registry.h"
#include "rewrite/matches.h"
#include "rewrite/rule_text.h"

namespace tandem {
namespace {

using rewrite::Draft;
using rewrite::Match;
using rewrite::Matches;
using rewrite::Rule;
using rewrite::RuleSet;

// Returns sound rules on the operators of transformers and convolutional networks.
std::vector<Rule> make_base_rules() {
  return rewrite::parse_rules(R"(
add-commutes: (add ?x ?y) => (add ?y ?x)
mul-commutes: (mul ?x ?y) => (mul ?y ?x)
add-associates: (add ?x (add ?y ?z)) <=> (add (add ?x ?y) ?z) if same_shape(?x, ?y) and same_shape(?y, ?z)
fuse-linear-relu: (relu (linear ?x ?w)) <=> (linear ?x ?w act=relu)
fuse-linear-gelu: (gelu (linear ?x ?w)) <=> (linear ?x ?w act=gelu)
fuse-conv-relu: (relu (conv2d ?x ?w stride=?s padding=?p)) <=> (conv2d ?x ?w stride=?s padding=?p act=relu)
relu-of-concat: (relu (concat ?x ?y axis=?a)) <=> (concat (relu ?x) (relu ?y) axis=?a)
concat-of-concat: (concat (concat ?x ?y axis=?a) ?z axis=?a) => (concat ?x ?y ?z axis=?a)
share-linear: (linear ?x ?v), (linear ?x ?w) => (slice ?c axis=rank(?x)-1 size=dim(?v, 0)),
    (slice ?c axis=rank(?x)-1 begin=dim(?v, 0) size=dim(?w, 0))
    where ?c = (linear ?x (concat ?v ?w axis=0))
share-conv: (conv2d ?x ?v stride=?s padding=?p), (conv2d ?x ?w stride=?s padding=?p) =>
    (slice ?c axis=1 size=dim(?v, 0)), (slice ?c axis=1 begin=dim(?v, 0) size=dim(?w, 0))
    where ?c = (conv2d ?x (concat ?v ?w axis=0) stride=?s padding=?p)
sum-of-convs: (add (conv2d ?x ?v stride=?s padding=?p) (conv2d ?y ?w stride=?s padding=?p)) =>
    (conv2d (concat ?x ?y axis=1) (concat ?v ?w axis=1) stride=?s padding=?p)
sum-of-linears: (add (linear ?x ?v) (linear ?y ?w)) =>
    (linear (concat ?x ?y axis=rank(?x)-1) (concat ?v ?w axis=1))
split-relu: (relu ?x) => (combine (relu (partition ?x dim=?i degree=?d)) dim=?i degree=?d) choose ?i, ?d
split-gelu: (gelu ?x) => (combine (gelu (partition ?x dim=?i degree=?d)) dim=?i degree=?d) choose ?i, ?d
split-add: (add ?x ?y) => (combine (add (partition ?x dim=?i degree=?d) (partition ?y dim=?i degree=?d)) dim=?i degree=?d) choose ?i, ?d
split-linear-columns: (linear ?x ?w) => (combine (linear (replicate ?x degree=?d) (partition ?w dim=0 degree=?d)) dim=rank(?x)-1 degree=?d) choose ?d
split-linear-rows: (linear ?x ?w) => (combine (linear (partition ?x dim=0 degree=?d) (replicate ?w degree=?d)) dim=0 degree=?d) choose ?d
split-linear-depth: (linear ?x ?w) => (reduce (linear (partition ?x dim=rank(?x)-1 degree=?d) (partition ?w dim=1 degree=?d)) degree=?d) choose ?d
split-conv-batch: (conv2d ?x ?w stride=?s padding=?p) => (combine (conv2d (partition ?x dim=0 degree=?d) (replicate ?w degree=?d) stride=?s padding=?p) dim=0 degree=?d) choose ?d
split-conv-channels: (conv2d ?x ?w stride=?s padding=?p) => (combine (conv2d (replicate ?x degree=?d) (partition ?w dim=0 degree=?d) stride=?s padding=?p) dim=1 degree=?d) choose ?d
cancel-combine-partition: (partition (combine ?x dim=?i degree=?d) dim=?i degree=?d) => ?x
cancel-partition-combine: (combine (partition ?x dim=?i degree=?d) dim=?i degree=?d) => ?x
combine-below-relu: (relu (combine ?x dim=?i degree=?d)) <=> (combine (relu ?x) dim=?i degree=?d)
combine-below-gelu: (gelu (combine ?x dim=?i degree=?d)) <=> (combine (gelu ?x) dim=?i degree=?d)
)");
}

// Returns `count` rules with different sources: the base rules, and base rules with operators
// around them.
std::vector<Rule> make_many_rules(std::size_t count) {
  auto out = make_base_rules();
  const std::vector<std::string> around = {"relu", "gelu", "tanh", "sigmoid", "identity",
                                           "neg",  "exp",  "silu", "abs",     "square"};
  std::size_t base = 0;
  for (std::size_t n = 0; out.size() < count; ++n) {
    const auto rule = out[base++];
    if (rule.source.outputs.size() != 1) continue;
    for (const auto& name : around) {
      if (out.size() == count) break;
      auto wrapped = rule;
      wrapped.name = rule.name + "-" + name;
      const auto& spec = ops::find_op(name);
      for (auto* side : {&wrapped.source, &wrapped.target}) {
        rewrite::PatternNode node;
        node.spec = &spec;
        node.inputs = {side->outputs[0]};
        side->outputs[0] = side->add(std::move(node));
      }
      out.push_back(std::move(wrapped));
    }
  }
  return out;
}

graph::Graph build_model(std::string_view name) {
  return models::parse_model(name).build(64, DType::kFp32);
}

void BM_AllMatches(benchmark::State& state) {
  const auto graph = build_model("inception_v3");
  rewrite::Dictionary dictionary;
  const RuleSet rules(make_many_rules(1400), dictionary, {});
  const auto draft = Draft::from_graph(graph, dictionary);
  std::size_t matches = 0;
  for (auto _ : state) matches = Matches::find(rules, draft).size();
  state.counters["matches"] = static_cast<double>(matches);
}
BENCHMARK(BM_AllMatches)->Unit(benchmark::kMillisecond);

// Rewrites at random places. With `with_matches`, updates the matches and continues from the
// result, and restarts from the first graph after 50 rewrites.
void rewrite_at_random(benchmark::State& state, const graph::Graph& graph, std::size_t rule_count,
                       bool with_matches) {
  rewrite::Dictionary dictionary;
  const RuleSet rules(make_many_rules(rule_count), dictionary, {});
  const auto first = Draft::from_graph(graph, dictionary);
  const auto first_matches = Matches::find(rules, first);
  const auto places = first_matches.all();
  auto draft = first;
  auto matches = first_matches;
  std::mt19937_64 random(1);
  std::vector<rewrite::Slot> changed;
  std::int64_t rewrites = 0;
  for (auto _ : state) {
    // Matches of the first graph that no longer exist are refused, and not counted.
    auto next = rules.apply(draft, places[random() % places.size()], changed);
    if (!next) continue;
    ++rewrites;
    benchmark::DoNotOptimize(next);
    if (!with_matches) continue;
    matches = matches.find_after_rewrite(rules, *next, changed);
    draft = std::move(*next);
    if (rewrites % 50 != 0) continue;
    draft = first;
    matches = first_matches;
  }
  state.counters["rewrites/s"] =
      benchmark::Counter(static_cast<double>(rewrites), benchmark::Counter::kIsRate);
  state.counters["applied"] =
      benchmark::Counter(static_cast<double>(rewrites), benchmark::Counter::kAvgIterations);
  state.counters["matches"] = static_cast<double>(places.size());
  state.counters["nodes"] = static_cast<double>(graph.size());
}

void BM_StepInception(benchmark::State& state) {
  rewrite_at_random(state, build_model("inception_v3"), 1400, true);
}
BENCHMARK(BM_StepInception)->Unit(benchmark::kMicrosecond);

void BM_RewriteBertLayer(benchmark::State& state) {
  rewrite_at_random(state, build_model("bert_large:layers=1"), 24, state.range(0) != 0);
}
BENCHMARK(BM_RewriteBertLayer)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

void BM_RewriteBertLarge(benchmark::State& state) {
  rewrite_at_random(state, build_model("bert_large"), 24, state.range(0) != 0);
}
BENCHMARK(BM_RewriteBertLarge)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tandem
