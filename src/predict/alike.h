// Which devices do the same at the same times, though they lie elsewhere: of 192 devices of which
// 26 hold a table each, all others are alike. One of them is simulated for all.
//
// As graphs are told apart by colours: devices that hold parts of other buffers, or are the root of
// other moves, have different colours; then those that meet devices of other colours, until no
// colour is divided any more.
#pragma once

#include <cstdint>
#include <vector>

#include "lower/program.h"
#include "machine/machine.h"
#include "predict/class_groups.h"
#include "predict/holders.h"

namespace tandem::predict {

// By class: a number that classes have in common whose devices do the same. Numbers are counted in
// the order of the classes.
std::vector<std::uint32_t> alike(const lower::Program& program, const machine::Machine& machine,
                                 const Holders& holders, ClassGroups& groups);

}  // namespace tandem::predict
