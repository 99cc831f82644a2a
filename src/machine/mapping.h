// Mappings: which of a machine's digits each dimension of a task grid runs along.
//
// A grid is a list of degrees. A mapping assigns every digit to one dimension of the grid or leaves
// it idle. The digits of a dimension multiply to its degree. On summit:8, a grid of 8 x 2 x 3 may
// run its dimensions along the nodes, the sockets and the GPUs of a socket (contiguous).
// Alternatively, its first dimension runs along the sockets and two of the node digits (strided).
//
// A mapping's text is `node:dim0, socket/2:dim1, gpu:dim1`. Each part names a level, optionally a
// number of its units (outermost digits first), and the dimension they go to. Digits that no part
// takes are idle. A machine file may name such mappings.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "machine/digits.h"
#include "machine/node_layout.h"
#include "machine/number.h"

namespace tandem::machine {

struct Mapping {
  static constexpr int kIdle = -1;

  std::string name;                    // name in the machine file, or empty
  std::array<int, Digits::kMax> dims;  // dimension of the grid for each digit, or kIdle
};

// Returns all mappings of the grid, including those that the machine names; none if it has too few
// devices. Digits of one level and size are equivalent if the level's units are. Mappings that
// differ only by an exchange of such digits are listed once: the first dimension has the outermost
// digit.
std::vector<Mapping> list_mappings(const Machine& machine, std::span<const std::int64_t> grid);

// Returns the mapping with this name or text. Throws UserError if there is none or the grid
// differs.
Mapping find_mapping(const Machine& machine, std::span<const std::int64_t> grid,
                     const std::string& name);

std::string to_text(const Mapping& mapping, const Machine& machine);

// Returns the mapping as an operator's layout; a digit along dimension d of the grid gets
// `uses[d]`.
NodeLayout to_node_layout(const Mapping& mapping, std::span<const DigitUse> uses);

// Returns the device that runs the task with these indices.
std::int64_t find_device(const Mapping& mapping, const Digits& digits,
                         std::span<const std::int64_t> task);

// Parses a mapping's text. If `is_sized`, the levels' counts are known, and taking more units than
// a level has is an error.
NamedMapping parse_mapping(const Place& place, std::string_view name, std::string_view text,
                           const std::vector<Level>& levels, bool is_sized);

}  // namespace tandem::machine
