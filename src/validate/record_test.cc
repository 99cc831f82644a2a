// Parsing of records, and its error messages.
#include "validate/record.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "validate/relative_memory.h"

namespace tandem::validate {
namespace {

std::string get_error(std::string_view text) {
  try {
    (void)parse_records(text, "m.json");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// Returns one record with these members next to its names.
Record record_with(const std::string& fields) {
  return parse_records(R"({"records":[{"id":"a","group":"g","kind":"train_step",)" + fields + "}]}",
                       "m.json")
      .at(0);
}

TEST(Records, ReadAllFields) {
  const auto r = record_with(R"(
      "source":"S","model":{"type":"gpt","layers":24,"params_b":1.7,"surprise":[1]},
      "system":{"gpu":"A100","n_gpus":8,"inter_uni_GBps_per_gpu":12.5},
      "parallel":{"tp":2,"sp":true,"fsdp":"full","zero":0},"batch":{"global_samples":64,"grad_accum":4},
      "options":{"recompute":"full?","kernel":"flash","attn":"triton"},
      "measured":{"iter_s":1.5,"oom":false,"note":"x","points":[{"mib":1,"time_us":10},{"mib":"?"}]})");
  EXPECT_EQ(r.unreadable, "");
  EXPECT_EQ(r.unread, std::vector<std::string>{"model.surprise"});
  EXPECT_EQ(r.source, "S");
  EXPECT_EQ(r.model.layers, 24);
  EXPECT_EQ(r.model.billions, 1.7);
  EXPECT_EQ(r.system.inter, 12.5);
  EXPECT_EQ(r.parallel.tp, 2);
  EXPECT_EQ(r.parallel.zero, 0);
  EXPECT_TRUE(r.parallel.sp);
  EXPECT_TRUE(r.parallel.fsdp);
  EXPECT_EQ(r.batch.global, 64);
  EXPECT_EQ(r.batch.micro_batches, 4);
  EXPECT_EQ(r.options.recompute, "full");
  EXPECT_EQ(r.options.attention, "flash, triton");
  ASSERT_EQ(r.measured.size(), 4U);
  EXPECT_EQ(std::get<double>(r.measured[0].value), 1.5);
  EXPECT_EQ(std::get<bool>(r.measured[1].value), false);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(r.measured[2].value));
  const auto& points = std::get<std::vector<CurvePoint>>(r.measured[3].value);
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].size, Bytes{1024 * 1024});
  EXPECT_DOUBLE_EQ(points[0].time.value, 10e-6);
}

TEST(Records, TreatNullAndQuestionMarksAsUnknown) {
  const auto r = record_with(
      R"("model":{"layers":null,"hidden":"?","heads":"16?","seq_len":0,"type":"?"},"system":null)");
  EXPECT_EQ(r.unreadable, "");
  EXPECT_FALSE(r.model.layers || r.model.hidden || r.model.seq_len);
  EXPECT_EQ(r.model.heads, 16);
  EXPECT_EQ(r.model.type, "");
}

TEST(Records, RejectWrongTypes) {
  EXPECT_EQ(record_with(R"("model":{"layers":"many"})").unreadable,
            "'model.layers' is \"many\" and must be a non-negative number");
  EXPECT_EQ(record_with(R"("batch":{"micro_seqs":2.5})").unreadable,
            "'batch.micro_seqs' is 2.5 and must be an integer");
  EXPECT_EQ(record_with(R"("system":{"n_gpus":-8})").unreadable,
            "'system.n_gpus' is -8 and must be a non-negative number");
  EXPECT_EQ(record_with(R"("system":{"n_gpus":1e300})").unreadable,
            "'system.n_gpus' is 1e+300 and must be a non-negative number");
  EXPECT_EQ(record_with(R"("parallel":[1])").unreadable,
            "'parallel' is a list and must be an object");
  EXPECT_EQ(record_with(R"("options":{"dtype":{}})").unreadable,
            "'options.dtype' is an object and must be a string");
  EXPECT_EQ(record_with(R"("measured":3)").unreadable, "'measured' is 3 and must be an object");
}

// Memory relative to another run takes its sizes from the record that states the model.
TEST(Records, CompleteTheNamedModel) {
  const auto records = parse_records(
      R"({"records":[
        {"id":"a-1","group":"g","kind":"memory","source":"P 1","model":{"type":"gpt","name":"M"},
         "measured":{"activation_gib":1}},
        {"id":"a-2","group":"g","kind":"memory","source":"P 2",
         "model":{"type":"gpt","name":"M","layers":4},"parallel":{"tp":8},"measured":{}},
        {"id":"a-seqsel","group":"g","kind":"memory","source":"P 3",
         "model":{"type":"gpt","name":"M"},"measured":{"activation_pct_of_tp_baseline":20}},
        {"id":"a-full","group":"g","kind":"memory","source":"Q 3",
         "model":{"type":"gpt","name":"M"},"measured":{"activation_pct_of_tp_baseline":20}}]})",
      "f");
  EXPECT_FALSE(records[0].model.layers);
  EXPECT_EQ(records[2].model.layers, 4);
  EXPECT_EQ(records[2].parallel.tp, 8);
  EXPECT_TRUE(records[2].parallel.sp);
  EXPECT_EQ(records[2].options.recompute, "selective");
  EXPECT_FALSE(make_baseline(records[2]).parallel.sp);
  EXPECT_EQ(make_baseline(records[2]).options.recompute, "none");
  EXPECT_FALSE(records[3].model.layers);  // of another source
}

TEST(Records, NameTheRecordAndTheFieldInErrors) {
  EXPECT_EQ(get_error("{"), "m.json: is not JSON (line 1, column 2)");
  EXPECT_EQ(get_error(R"({"records":[{"id":"a"},{"id":"b","model":{"layers":2,"layers":3}}]})"),
            "m.json: 'records[1].model.layers' is given twice (remove one of the two)");
  EXPECT_EQ(get_error("[]"),
            "m.json: has no list 'records' ({\"records\":[{\"id\",\"group\",\"kind\",...}]})");
  EXPECT_EQ(get_error(R"({"records":[1]})"), "m.json: record 1: is 1 and must be an object");
  EXPECT_EQ(get_error(R"({"records":[{"group":"g"}]})"), "m.json: record 1: 'id' is missing");
  EXPECT_EQ(get_error(R"({"records":[{"id":"a","group":7}]})"),
            "m.json: record 1 ('a'): 'group' is 7 and must be a string");
  EXPECT_EQ(get_error(R"({"records":[{"id":"a","group":"g"}]})"),
            "m.json: record 1 ('a'): 'kind' is missing");
  EXPECT_TRUE(parse_records(R"({"records":[]})", "m.json").empty());
  const auto twice = parse_records(R"({"records":[{"id":"a","group":"g","kind":"memory"},
                                                  {"id":"a","group":"g","kind":"memory"}]})",
                                   "m.json");
  EXPECT_EQ(twice[0].unreadable, "");
  EXPECT_EQ(twice[1].unreadable, "an earlier record has the same id");
}

TEST(Records, NameUnusedFields) {
  const auto r = record_with(R"(
      "notes":"n","url":"u","modle":{},"model":{"layrs":24,"heads":null,"hidden":"?","odd":null},
      "batch":{"micro_seqs":2,"micro_samples":2},"options":{"dtype":"fp16"})");
  EXPECT_EQ(r.unread, (std::vector<std::string>{"model.layrs", "modle"}));
  EXPECT_EQ(r.unreadable, "");
}

}  // namespace
}  // namespace tandem::validate
