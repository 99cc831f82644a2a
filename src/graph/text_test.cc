// Tests graphs as text, and the two hashes.
#include "graph/text.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <set>

#include "base/text.h"
#include "graph/random_graph_test_support.h"
#include "ops/examples_test_support.h"

namespace tandem::graph {
namespace {

constexpr std::string_view kMlp = R"(graph mlp
%x = input() shape=[64/2, 784]*2
%w1 = weight() shape=[512/2, 784]*2
%b1 = weight() shape=[512/2]*2
%h = linear(%x, %w1, %b1) act=relu : [64/2, 512/2] fp32
%w2 = weight() shape=[10, 512/2]*2
%y = linear(%h, %w2) : [64/2, 10]+2 fp32
%out = reduce(%y) degree=2 : [64/2, 10] fp32
return %out, %h
)";

constexpr std::string_view kAttention = R"(graph attention
%x = input() shape=[2, 4, 8] dtype=bf16
%wq = weight() shape=[2, 4, 8] dtype=bf16
%q = contract(%x, %wq) index="b s i, h d i -> b h s d" : [2, 2, 4, 4] bf16
%a = contract(%q, %q) index="b h s d, b h t d -> b h s t" scale=0.5 : [2, 2, 4, 4] bf16
%p = softmax(%a) : [2, 2, 4, 4] bf16
return %p
)";

constexpr std::string_view kTables = R"(graph tables
%i = input() shape=[4, 3] dtype=int64 below=10
%t = weight() shape=[10, 6]
%e = embedding_bag(%i, %t) : [4, 6] fp32
%c = concat(%e, %e) axis=1 : [4, 12] fp32
%s = weight() shape=[12]
%n = layer_norm(%c, %s, %s) eps=0.001 : [4, 12] fp32
%loss = mse(%n, %c) : [] fp32
return %loss
)";

constexpr std::string_view kSmall = "graph g\n%x = input() shape=[8]\n%y = relu(%x)\nreturn %y\n";

void expect_round_trip(const Graph& graph) {
  const auto text = to_text(graph);
  const auto again = parse_graph(text);
  EXPECT_EQ(to_text(again), text);
  EXPECT_EQ(again.identity_hash(), graph.identity_hash());
  EXPECT_EQ(again.shape_hash(), graph.shape_hash());
  ASSERT_EQ(again.size(), graph.size());
  for (auto id : graph.ids()) {
    EXPECT_EQ(again.node(id).type, graph.node(id).type);
    EXPECT_EQ(again.node(id).op, graph.node(id).op);
  }
}

TEST(GraphText, PrintsParsedTextUnchanged) {
  for (auto text : {kMlp, kAttention, kTables}) {
    const auto graph = parse_graph(text);
    EXPECT_EQ(to_text(graph), text);
    expect_round_trip(graph);
  }
}

TEST(GraphText, RoundTripsRandomGraphs) {
  std::set<std::string> used;
  std::size_t nodes = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const auto graph = random_graph(seed, {.operators = 30});
    expect_round_trip(graph);
    nodes += graph.size();
    for (auto id : graph.ids()) used.insert(graph.node(id).op.name());
  }
  EXPECT_GT(nodes, 200 * 20);
  EXPECT_GE(used.size(), 16U);
}

TEST(GraphText, RoundTripsEveryOperatorAndAttribute) {
  for (const auto& example : ops::examples()) {
    SCOPED_TRACE(format_name(example));
    GraphBuilder b("one");
    std::vector<NodeId> inputs;
    for (std::size_t i = 0; i < example.inputs.size(); ++i) {
      const auto name = fmt::format("x{}", i);
      inputs.push_back(
          is_index(example, i)
              ? b.input(name, ParallelShape(example.inputs[i]), DType::kInt64, example.below)
              : b.weight(name, ParallelShape(example.inputs[i]), DType::kFp32));
    }
    expect_round_trip(b.finish({b.add(make(example), inputs, "y")}));
  }
}

TEST(GraphText, AllowsCommentsBlanksAndMissingTypes) {
  const auto graph = parse_graph(
      "\n# a comment\n  graph g # the name\r\n\n%x=input()  shape=[4/2,6]\n"
      "%w = weight() shape=[8, 6]*2 dtype=fp32\n %y = linear( %x , %w )   act=relu\nreturn %y\n\n# "
      "end");
  EXPECT_EQ(to_text(graph),
            "graph g\n%x = input() shape=[4/2, 6]\n%w = weight() shape=[8, 6]*2\n"
            "%y = linear(%x, %w) act=relu : [4/2, 8] fp32\nreturn %y\n");
}

TEST(GraphText, ReportsLineAndCauseOfErrors) {
  struct Case {
    std::string_view text, error;
  };
  const std::string head = "graph g\n%x = input() shape=[8, 64]\n%w = weight() shape=[63, 8]\n";
  const Case cases[] = {
      {"", "m.graph:0: the graph ends without 'return'"},
      {"grap g\n", "m.graph:1: expected 'graph NAME' at 'grap g'"},
      {"\ngraph a b\n", "m.graph:2: expected 'graph NAME' at 'graph a b'"},
      {"x = input()",
       "m.graph:4: expected '%name = operator(%input, ...) attribute=value' at 'x = input()'"},
      {"%y = relu %x",
       "m.graph:4: expected '%name = operator(%input, ...) attribute=value' at '%y = relu %x'"},
      {"% = relu(%x)", "m.graph:4: expected a name without blanks"},
      {"%y z = relu(%x)", "m.graph:4: expected a name without blanks at 'y z'"},
      {"%y = relu(x)", "m.graph:4: expected a node like %x at 'x'"},
      {"%y = relu(%z)", "m.graph:4: there is no node %z before this line"},
      {"%y = rely(%x)", "m.graph:4: unknown operator 'rely' (did you mean 'relu'?)"},
      {"%y = relu(%x) 7", "m.graph:4: expected attribute=value at '7'"},
      {"%y = linear(%x, %w) act=swash", "m.graph:4: linear: attribute 'act' cannot be 'swash'"},
      {"%y = linear(%x, %w) bias=true",
       "m.graph:4: linear has no attribute 'bias' (its attributes: act)"},
      {"%7 = matmul(%x, %w)", "m.graph:4: matmul %7: index 'k' is 64 in input 0 and 63 in input 1"},
      {"%x = relu(%w)", "m.graph:4: relu %x: another node already has this name"},
      {"%y = relu(%x) : [8, 63] fp32",
       "m.graph:4: relu %y: is written as [8, 63] fp32, but its type is [8, 64] fp32"},
      {"%y = input(%x)", "m.graph:4: input %y: takes 0 inputs, but has 1"},
      {"%y = replicate() degree=2", "m.graph:4: replicate %y: takes 1 input, but has 0"},
      {"%y = input() shape=[8/3]",
       "m.graph:4: input %y: dim 0 is 8, which degree 3 does not divide (the nearest degree that "
       "does is 2)"},
      {"%y = embedding_bag(%x, %w)",
       "m.graph:4: embedding_bag %y: input 0 is fp32, but must be int32 or int64"},
      {"%y = input() shape=[8, 64] dtype=bf16\n%z = add(%x, %y)",
       "m.graph:5: add %z: input 1 is bf16, but an earlier input is fp32"},
      {"%y = input() shape=[8, 64] dtype=int32\n%z = relu(%y)",
       "m.graph:5: relu %z: input 0 is int32, but must be a real type"},
      {"return", "m.graph:4: 'return' must name at least one node"},
      {"return %q", "m.graph:4: there is no node %q before this line"},
      {"return %x\n\n%y = relu(%x)",
       "m.graph:6: unexpected text after 'return' at '%y = relu(%x)'"},
      {"%y = relu(%x)\n", "m.graph:4: the graph ends without 'return'"},
  };
  for (const auto& c : cases) {
    const bool whole = c.text.empty() || c.text.find("gra") < 2;
    try {
      parse_graph(whole ? std::string(c.text) : head + std::string(c.text), "m.graph");
      ADD_FAILURE() << c.text << " was accepted";
    } catch (const UserError& e) {
      EXPECT_EQ(std::string_view(e.what()), c.error) << c.text;
    }
  }
}

// --- Repeats

constexpr std::string_view kRepeats = R"(graph repeats
%x = input() shape=[4, 4]
repeat 2 as i from 9   # comments and blanks as elsewhere

  carry %in = %x then %l{i}.out
  carry %first=%x  then  %l{i}.0
  repeat 3 as j from 0
    carry %h = %in then %l{i}.{j}
    %l{i}.{j} = relu(%h) : [4, 4] fp32
  end
  %l{i}.out = add(%l{i}.2, %first)
end
return %l10.out, %l9.1
)";

TEST(GraphText, ExpandsRepeats) {
  EXPECT_EQ(to_text(parse_graph(kRepeats)), R"(graph repeats
%x = input() shape=[4, 4]
%l9.0 = relu(%x) : [4, 4] fp32
%l9.1 = relu(%l9.0) : [4, 4] fp32
%l9.2 = relu(%l9.1) : [4, 4] fp32
%l9.out = add(%l9.2, %x) : [4, 4] fp32
%l10.0 = relu(%l9.out) : [4, 4] fp32
%l10.1 = relu(%l10.0) : [4, 4] fp32
%l10.2 = relu(%l10.1) : [4, 4] fp32
%l10.out = add(%l10.2, %l9.0) : [4, 4] fp32
return %l10.out, %l9.1
)");
}

TEST(GraphText, ReportsLineAndCauseOfErrorsInRepeats) {
  struct Case {
    std::string_view text, error;
  };
  const Case cases[] = {
      {"repeat", "g:3: expected 'repeat COUNT as VARIABLE from NUMBER' at 'repeat'"},
      {"repeat 2 as i", "g:3: expected 'repeat COUNT as VARIABLE from NUMBER' at 'repeat 2 as i'"},
      {"repeat 0 as i from 0", "g:3: expected a count of at least 1 at '0'"},
      {"repeat two as i from 0", "g:3: expected a count of at least 1 at 'two'"},
      {"repeat 2 as I from 0", "g:3: expected a variable of lowercase letters at 'I'"},
      {"repeat 2 as i from -1", "g:3: expected a first number of at least 0 at '-1'"},
      {"repeat 2 as i from 0\n%y{i} = relu(%x)\n", "g:4: the repeat in line 3 has no 'end'"},
      {"repeat 2 as i from 0\n%y{i} = relu(%x)\nreturn %x",
       "g:5: the repeat in line 3 has no 'end'"},
      {"repeat 2 as i from 0\nend", "g:4: a repeat must have at least one node"},
      {"repeat 2 as i from 0\n%y{i} = relu(%x)\nend i",
       "g:5: unexpected text after 'end' at 'end i'"},
      {"end", "g:3: 'end' without 'repeat'"},
      {"carry %a = %x then %x", "g:3: 'carry' is only allowed at the start of a repeat"},
      {"repeat 2 as i from 0\n%y{i} = relu(%x)\ncarry %a = %x then %x\nend",
       "g:5: 'carry' is only allowed at the start of a repeat"},
      {"repeat 2 as i from 0\ncarry %a = %x\n%y{i} = relu(%a)\nend",
       "g:4: expected 'carry %name = %first then %later' at '%a = %x'"},
      {"repeat 2 as i from 0\ncarry %a = %z then %y{i}\n%y{i} = relu(%a)\nend",
       "g:4: there is no node %z before this line"},
      {"repeat 2 as i from 0\ncarry %x = %x then %y{i}\n%y{i} = relu(%x)\nend",
       "g:4: the name %x is already in use"},
      {"repeat 2 as i from 0\ncarry %a = %x then %z{i}\n%y{i} = relu(%a)\nend",
       "g:4: there is no node %z0 at the end of the iteration"},
      {"repeat 2 as i from 0\ncarry %a = %x then %y{i}\n%y{i} = relu(%b)\nend",
       "g:5: there is no node %b before this line"},
      {"repeat 2 as i from 0\ncarry %a = %x then %a\n%y{i} = relu(%a)\nend",
       "g:4: there is no node %a at the end of the iteration"},
      {"repeat 2 as i from 0\ncarry %a = %x then %y{i}\n%y{i} = relu(%a)\n%a = relu(%x)\nend",
       "g:6: %a is already the name of a carried node"},
      {"repeat 2 as i from 0\n%y = relu(%x)\nend",
       "g:4: relu %y: another node already has this name"},
      {"repeat 2 as i from 0\n%y{j} = relu(%x)\nend",
       "g:4: no enclosing repeat has the variable 'j' at 'y{j}'"},
      {"%y{i} = relu(%x)", "g:3: no enclosing repeat has the variable 'i' at 'y{i}'"},
      {"%y{ = relu(%x)",
       "g:3: relu %y{: node names must not contain blanks or any of % , ( ) # : = \" { }"},
      {"repeat 2 as i from 0\nrepeat 2 as i from 0\n%y{i} = relu(%x)\nend\nend",
       "g:4: 'i' is already the variable of an enclosing repeat"},
      {"repeat 2 as i from 0\ncarry %a = %x then %y{i}\n%y{i} = concat(%a, %x) : [16, 4] fp32\nend",
       "g:5: concat %y1: is written as [16, 4] fp32, but its type is [24, 4] fp32"},
      {"repeat 1048576 as i from 0\n%y{i} = relu(%x)\nend",
       "g:3: the repeat creates too many nodes: a graph has at most 1048576"},
      {"repeat 9000000000000000000 as i from 0\n%y{i} = relu(%x)\nend",
       "g:3: the repeat creates too many nodes: a graph has at most 1048576"},
      {"repeat 2000 as i from 0\nrepeat 2000 as j from 0\n%y{i}.{j} = relu(%x)\nend\nend",
       "g:3: the repeat creates too many nodes: a graph has at most 1048576"},
  };
  for (const auto& c : cases) {
    const auto text = fmt::format("graph g\n%x = input() shape=[8, 4]\n{}", c.text);
    try {
      parse_graph(text, "g");
      ADD_FAILURE() << c.text << " was accepted";
    } catch (const UserError& e) {
      EXPECT_EQ(std::string_view(e.what()), c.error) << c.text;
    }
  }
}

TEST(GraphText, NestsRepeatsEightDeep) {
  const auto nest = [](int depth) {
    std::string text = "graph g\n%x = input() shape=[4]\n";
    std::string name = "%y";
    for (int d = 0; d < depth; ++d) {
      const auto variable = static_cast<char>('a' + d);
      text += fmt::format("repeat 2 as {} from 0\n", variable);
      name += fmt::format("{{{}}}", variable);
    }
    text += name + " = relu(%x)\n";
    for (int d = 0; d < depth; ++d) text += "end\n";
    return text + "return %x\n";
  };
  EXPECT_EQ(parse_graph(nest(8)).size(), 257U);
  try {
    parse_graph(nest(9));
    ADD_FAILURE() << "was accepted";
  } catch (const UserError& e) {
    EXPECT_EQ(std::string_view(e.what()), "graph:11: repeats are nested deeper than 8");
  }
}

TEST(GraphText, ParsesOrRefusesDamagedText) {
  int parsed = 0;
  int refused = 0;
  for (const auto original : {kMlp, kAttention, kTables, kRepeats}) {
    for (std::uint64_t seed = 0; seed < 700; ++seed) {
      std::mt19937_64 random(seed);
      std::string text(original);
      for (std::uint64_t damage = 1 + random() % 3; damage > 0; --damage) {
        const auto at = random() % text.size();
        switch (random() % 4) {
          case 0:
            text[at] = static_cast<char>(random() % 256);
            break;
          case 1:
            text.erase(at, 1 + random() % 5);
            break;
          case 2:
            text.insert(at, 1, text[random() % text.size()]);
            break;
          default:
            text[at] = static_cast<char>(text[at] ^ (1 << (random() % 8)));
        }
      }
      SCOPED_TRACE(fmt::format("seed {}:\n{}", seed, text));
      try {
        expect_round_trip(parse_graph(text));
        ++parsed;
      } catch (const UserError& e) {
        EXPECT_EQ(e.where.substr(0, 6), "graph:") << e.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(parsed, 20);
  EXPECT_GT(refused, 1000);
}

TEST(GraphBuilder, IsUnchangedByARefusedNode) {
  GraphBuilder builder("g");
  const auto x = builder.input("x", {8, 64}, DType::kFp32);
  EXPECT_THROW(builder.add(ops::kMatMul, {x, x}, "y"), UserError);
  EXPECT_EQ(builder.find("y"), std::nullopt);
  const auto y = builder.add(ops::kRelu, {x}, "y");
  EXPECT_EQ(builder.find("y"), y);
}

// --- Hashes

Graph replace(std::string text, const std::map<std::string, std::string>& changes) {
  for (const auto& [from, to] : changes) {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  }
  return parse_graph(text);
}

TEST(GraphHash, IgnoresNodeNames) {
  const auto graph = parse_graph(kMlp);
  const auto renamed =
      replace(std::string(kMlp), {{"%h", "%hidden"}, {"%y", "%z"}, {"graph mlp", "graph net"}});
  EXPECT_EQ(renamed.identity_hash(), graph.identity_hash());
  EXPECT_EQ(renamed.shape_hash(), graph.shape_hash());
}

TEST(GraphHash, IncludesWeightNamesInTheIdentityOnly) {
  for (const auto* source : {"%w1", "%b1", "%x"}) {
    const auto graph = parse_graph(kMlp);
    const auto renamed = replace(std::string(kMlp), {{source, "%other"}});
    EXPECT_NE(renamed.identity_hash(), graph.identity_hash()) << source;
    EXPECT_EQ(renamed.shape_hash(), graph.shape_hash()) << source;
  }
}

TEST(GraphHash, DependsOnAttributesAndTypes) {
  struct Case {
    std::string_view text;
    std::map<std::string, std::string> changes;
  };
  const Case cases[] = {
      {kMlp, {{"act=relu", ""}}},
      {kMlp, {{"784", "785"}}},
      {kSmall, {{"[8]", "[8/2]"}}},
      {kSmall, {{"[8]", "[8]*2"}}},
      {kSmall, {{"input", "weight"}}},
      {kMlp, {{"return %out, %h", "return %h, %out"}}},
      {kMlp, {{"return %out, %h", "return %out"}}},
      {kAttention, {{"scale=0.5", "scale=0.25"}}},
      {kAttention, {{"bf16", "fp16"}}},
      {kTables, {{"eps=0.001", "eps=0.002"}}},
      {kTables, {{"below=10", "below=9"}}},
      {kTables, {{"mse(%n, %c)", "mse(%c, %n)"}}},
  };
  for (const auto& c : cases) {
    const auto graph = parse_graph(c.text);
    const auto changed = replace(std::string(c.text), c.changes);
    EXPECT_NE(changed.identity_hash(), graph.identity_hash()) << c.changes.begin()->first;
    EXPECT_NE(changed.shape_hash(), graph.shape_hash()) << c.changes.begin()->first;
  }
}

TEST(GraphHash, DistinguishesTwoWeightsFromOneUsedTwice) {
  const auto text = [](std::string_view second) {
    return fmt::format(
        "graph g\n%a = weight() shape=[4]\n%b = weight() shape=[4]\n%y = add(%a, {})\nreturn %y\n",
        second);
  };
  EXPECT_NE(parse_graph(text("%a")).shape_hash(), parse_graph(text("%b")).shape_hash());
}

TEST(GraphHash, IgnoresUnusedNodes) {
  const auto graph = replace(
      std::string(kMlp), {{"return", "%dead = relu(%h)\n%unused = weight() shape=[3]\nreturn"}});
  EXPECT_EQ(graph.identity_hash(), parse_graph(kMlp).identity_hash());
  EXPECT_EQ(graph.shape_hash(), parse_graph(kMlp).shape_hash());
}

// Returns the same graph in another topological order, with its non-source nodes renamed.
Graph shuffle_nodes(const Graph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  GraphBuilder builder("shuffled");
  std::vector<std::optional<NodeId>> image(graph.size());
  for (std::size_t done = 0; done < graph.size();) {
    const NodeId id(static_cast<std::size_t>(random() % graph.size()));
    std::vector<NodeId> inputs;
    for (auto i : graph.inputs(id)) {
      if (image[i.index()]) inputs.push_back(*image[i.index()]);
    }
    if (image[id.index()] || inputs.size() != graph.inputs(id).size()) continue;
    const auto& node = graph.node(id);
    const bool source = node.op.role() == ops::Role::kSource;
    image[id.index()] =
        builder.add(node.op, inputs, source ? node.name : fmt::format("fresh{}", done));
    ++done;
  }
  std::vector<NodeId> outputs;
  for (auto o : graph.outputs()) outputs.push_back(*image[o.index()]);
  return builder.finish(outputs);
}

TEST(GraphHash, IgnoresOrderAndNames) {
  std::set<Hash> distinct;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const auto graph = random_graph(seed);
    const auto other = shuffle_nodes(graph, seed);
    EXPECT_EQ(other.identity_hash(), graph.identity_hash());
    EXPECT_EQ(other.shape_hash(), graph.shape_hash());
    distinct.insert(graph.shape_hash());
  }
  EXPECT_GT(distinct.size(), 190U);  // (a few small graphs may coincide)
}

TEST(Graph, ErasureRemovesParallelismOnly) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const auto pcg = random_graph(seed);
    const auto erased = erase_parallelism(pcg);
    std::size_t expected = 0;
    for (auto id : pcg.ids()) expected += is_parallel(pcg.node(id)) ? 0 : 1;
    EXPECT_EQ(erased.size(), expected);
    for (auto id : erased.ids()) EXPECT_TRUE(erased.node(id).type.shape.is_undivided());
    const auto serial = random_graph(seed, {.parallel = false});
    EXPECT_EQ(erase_parallelism(serial).identity_hash(), serial.identity_hash());
  }
}

TEST(Graph, SharesUnchangedNodesAfterErasure) {
  constexpr std::string_view kHalf = R"(graph half
%x = input() shape=[8, 64]
%w = weight() shape=[64, 64]
%h = linear(%x, %w) : [8, 64] fp32
%p = partition(%h) degree=2 : [8/2, 64] fp32
%y = relu(%p) : [8/2, 64] fp32
%v = weight() shape=[8/2, 64]
%z = add(%y, %v) : [8/2, 64] fp32
return %z
)";
  const auto pcg = parse_graph(kHalf);
  const auto erased = erase_parallelism(pcg);
  std::map<std::string, const Node*> before;
  for (auto id : pcg.ids()) before[pcg.node(id).name] = &pcg.node(id);
  std::string shared;
  for (auto id : erased.ids()) {
    const Node& node = erased.node(id);
    if (before.at(node.name) == &node) shared += node.name;
  }
  EXPECT_EQ(shared, "xwh");  // the others' types are new
  EXPECT_EQ(to_text(pcg), kHalf);
  EXPECT_EQ(to_text(erased),
            "graph half\n%x = input() shape=[8, 64]\n%w = weight() shape=[64, 64]\n"
            "%h = linear(%x, %w) : [8, 64] fp32\n%y = relu(%h) : [8, 64] fp32\n"
            "%v = weight() shape=[8, 64]\n%z = add(%y, %v) : [8, 64] fp32\nreturn %z\n");
}

TEST(GraphBuilder, ReusesNodesOfAnotherGraphAndChecksChangedTypes) {
  const auto from = parse_graph(kSmall);
  const NodeId relu(1);
  std::string text;
  {
    GraphBuilder builder("g");
    const auto x = builder.copy_node(from, NodeId(0), {});
    const auto y = builder.copy_node(from, relu, std::array{x});
    EXPECT_EQ(&builder.node(y), &from.node(relu));
    EXPECT_EQ(builder.find("y"), y);
    EXPECT_THROW(builder.copy_node(from, relu, std::array{x}), UserError);  // the name is taken
    text = to_text(builder.finish({y}));
  }
  EXPECT_EQ(text, to_text(from));
  GraphBuilder wider("g");
  const auto x = wider.input("x", {8, 64}, DType::kFp32);
  const auto y = wider.copy_node(from, relu, std::array{x});
  EXPECT_NE(&wider.node(y), &from.node(relu));
  EXPECT_EQ(wider.node(y).type, wider.node(x).type);
}

TEST(Graph, OutlivesTheGraphThatItSharesNodesWith) {
  auto first = std::make_unique<Graph>(parse_graph(kSmall));
  const auto second = erase_parallelism(*first);
  first.reset();
  expect_round_trip(second);
}

TEST(Graph, ListsConsumersAndGradients) {
  const auto graph = parse_graph(kTables);
  const auto consumers = graph.consumers();
  std::vector<std::size_t> counts;
  for (const auto& c : consumers) counts.push_back(c.size());
  EXPECT_EQ(counts, (std::vector<std::size_t>{1, 1, 2, 2, 2, 1, 0}));  // i t e c s n loss
  EXPECT_EQ(mark_gradient_nodes(graph),
            (std::vector<bool>{false, true, true, true, true, true, true}));
}

TEST(GraphText, AcceptsUtf8Names) {
  const auto name_node = [](const std::string& name) {
    return "graph g\n%" + name + " = input() shape=[2]\nreturn %" + name + "\n";
  };
  EXPECT_EQ(parse_graph(name_node("gr\xc3\xb6\xc3\x9f"
                                  "e"))
                .size(),
            1U);
  EXPECT_THROW(parse_graph(name_node("gr\xf6")), UserError);
}

}  // namespace
}  // namespace tandem::graph
