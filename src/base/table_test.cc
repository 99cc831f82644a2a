#include "base/table.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Table, AlignsColumnsByTheirWidestCell) {
  TextTable table({{"strategy"}, {"step time", Align::kRight}, {"note"}});
  table.add({"dp", "386 ms", "fits"});
  table.add({"fsdp:micro=8", "1.44 s", ""});
  EXPECT_EQ(table.to_text(),
            "  strategy      step time  note\n"
            "  dp               386 ms  fits\n"
            "  fsdp:micro=8     1.44 s\n");
}

TEST(Table, AllowsALongLastCellInAShortRow) {
  TextTable table({{""}, {"", Align::kRight}}, 0);
  table.add({"a", "1"});
  table.add({"a long remark that has no second cell"});
  EXPECT_EQ(table.to_text(), "a  1\na long remark that has no second cell\n");
}

TEST(Table, CountsCharactersNotBytes) {
  TextTable table({{"µs", Align::kRight}, {"b"}}, 0);
  table.add({"12", "x"});
  EXPECT_EQ(table.to_text(), "µs  b\n12  x\n");
}

}  // namespace
}  // namespace tandem
