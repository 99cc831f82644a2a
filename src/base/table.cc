#include "base/table.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {

namespace {

// Returns the number of code points of UTF-8 text.
std::size_t count_code_points(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

}  // namespace

std::vector<std::string> TextTable::lines() const {
  std::vector<std::size_t> widths;
  for (const auto& column : columns_) widths.push_back(count_code_points(column.title));
  for (const auto& row : rows_) {
    CHECK(row.size() <= columns_.size());
    const bool is_whole = row.size() == columns_.size();
    for (std::size_t i = 0; i + (is_whole ? 0 : 1) < row.size(); ++i) {
      widths[i] = std::max(widths[i], count_code_points(row[i]));
    }
  }
  std::vector<std::string> out;
  if (has_titles()) {
    std::vector<std::string> titles;
    for (const auto& column : columns_) titles.push_back(column.title);
    out.push_back(format_line(titles, widths));
  }
  for (const auto& row : rows_) out.push_back(format_line(row, widths));
  return out;
}

std::string TextTable::to_text() const {
  std::string out;
  for (const auto& line : lines()) out += line + "\n";
  return out;
}

bool TextTable::has_titles() const {
  return std::ranges::any_of(columns_, [](const auto& column) { return !column.title.empty(); });
}

std::string TextTable::format_line(const std::vector<std::string>& cells,
                                   const std::vector<std::size_t>& widths) const {
  std::string out;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto width = count_code_points(cells[i]);
    const std::string fill(widths[i] > width ? widths[i] - width : 0, ' ');
    out += std::string(i == 0 ? indent_ : 2, ' ');
    out += columns_[i].align == Align::kRight ? fill + cells[i] : cells[i] + fill;
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

}  // namespace tandem
