// A table of text with aligned columns. A column is as wide as its widest cell; two spaces separate
// columns, and no line ends with spaces.
//
//   Table table({{"strategy"}, {"step time", Align::kRight}});
//   table.add({"dp", "386 ms"});
//   table.add({"fsdp", "1.44 s"});
//
//   strategy  step time
//   dp           386 ms
//   fsdp         1.44 s
#pragma once

#include <string>
#include <vector>

namespace tandem {

enum class Align { kLeft, kRight };

struct TableColumn {
  std::string title;  // empty in all columns: the table has no title line
  Align align = Align::kLeft;
};

class TextTable {
 public:
  // Indents each line by `indent` spaces.
  explicit TextTable(std::vector<TableColumn> columns, std::size_t indent = 2)
      : columns_(std::move(columns)), indent_(indent) {}

  // Appends a row. A row may have fewer cells than there are columns: then its last cell may be
  // longer than its column is wide.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Returns the lines without line ends: the title line, if there is one, and the rows.
  [[nodiscard]] std::vector<std::string> lines() const;
  // Returns all lines, each with a line end.
  [[nodiscard]] std::string to_text() const;

 private:
  [[nodiscard]] bool has_titles() const;
  [[nodiscard]] std::string format_line(const std::vector<std::string>& cells,
                                        const std::vector<std::size_t>& widths) const;

  std::vector<TableColumn> columns_;
  std::size_t indent_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tandem
