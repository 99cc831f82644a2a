// MAD-Max's public model (ISCA'24), as its code computes it: the time, throughput and memory of one
// iteration from three small descriptions. docs/madmax.md says what it leaves out, and where
// Tandem's own model differs; this folder shares nothing with it.
//
//   inputs      three JSON files -> Model, System, Task
//   bandwidths  System -> bytes per second of every collective, by level
//   layer       a layer's work on one device -> times
//   iteration   layers in order -> two streams -> the end
//   evaluate    which layers, in which order, and what waits for what: one file for each family
#pragma once

#include "madmax/inputs.h"
#include "madmax/result.h"

namespace tandem::madmax {

Result evaluate(const Model& model, const System& system, const Task& task);

// Models with MLPs: embeddings, bottom MLP, perhaps a transformer, top MLP.
Result evaluate_recommendation(const Model& model, const System& system, const Task& task);
// Language and vision models: an embedding and equal blocks of attention and FFN.
Result evaluate_transformer(const Model& model, const System& system, const Task& task);

}  // namespace tandem::madmax
