// Limits of the search's effort, and margins of its decisions, each with its reason. None of them
// decides whether a plan is valid; with others the search finds the same or nearly the same, sooner
// or later.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::search::limits {

// Improvement of a pool (search/improve.h).
// A neighbourhood is tried again once the best takes at most this times what it did: less is within
// what a prediction says of two plans.
inline constexpr double kWorthAnotherRound = 0.995;

// Size of a network, and of what one simulation may take.
// Operators from which on simulating one strategy takes a good part of a second.
inline constexpr std::size_t kLargeNodes = 2000;
// Operators times micro-batches of one simulation: half a minute and 4 GB.
inline constexpr std::int64_t kMostOperatorPasses = 20'000'000;
// Combinations of a sweep: beyond them a user has made a mistake.
inline constexpr std::size_t kMostCases = 10'000;

// How far estimates are trusted.
// Candidates slower than the best by more than this, by estimate, are not simulated.
inline constexpr double kUncertain = 1.08;
// An estimate divided by this is taken as a lower bound: close ones are within 1 %,
inline constexpr double kNearly = 1.03;
// and rough ones within 15 %, but for some with tied weights or shared links.
inline constexpr double kRoughly = 1.25;
// Likewise their memory.
inline constexpr double kRoughMemory = 1.05;
// Rough estimates of a case that `explore` simulates at a time, until none may be on the front.
inline constexpr std::size_t kRoughSimulated = 8;
// The grid is pruned by the best simulated time times this: close estimates are within 1 %.
inline constexpr double kEstimateMargin = 1.01;
// What needs more memory than there is by this part of it never fits by a change of layouts.
inline constexpr double kFarTooLarge = 0.25;
// Likewise of a network in which layouts that save memory are searched.
inline constexpr double kTwiceTooLarge = 1;
// An estimate of memory decides where it is farther from the limit than this part of it.
inline constexpr double kUnsureMemory = 0.02;

// How many strategies are simulated. More find the same plans in the enumeration of tests/search.
// Baselines of each family, chosen by estimate.
inline constexpr std::size_t kPerFamily = 8;
// Estimated strategies of the grid, at most.
inline constexpr std::size_t kSimulated = 8;
// The same of a large network.
inline constexpr std::size_t kLargeSimulated = 3;
// Strategies simulated where the question is whether anything fits.
inline constexpr std::size_t kSmallest = 2;
// Shardings by kind of layer (MAD-Max) that are estimated all; of more, a kind at a time.
inline constexpr std::size_t kWholeShardings = 300;
// The same where each is simulated.
inline constexpr std::size_t kSimulatedShardings = 64;
// Settings of a family that are simulated for its row.
inline constexpr std::size_t kBaselineSimulated = 3;
// A row is replaced by what takes less than this times its time.
inline constexpr double kFasterRow = 0.999;
// Simpler strategies that are simulated at the end.
inline constexpr std::size_t kSimplerTried = 4;
// Operators simulated in vain before a simulated grid ends: some seconds of one core.
inline constexpr double kGridPatience = 4e6;
// The best of another pipeline depth is simulated, too, if it is at most this much slower,
inline constexpr double kOtherDepthSlower = 1.25;
// of so many depths: layouts of its own may make up for it.
inline constexpr std::size_t kOtherDepths = 3;

// The complete grid.
// Virtual stages of a rank that need not divide the layers.
inline constexpr std::int64_t kMostUnevenVirtualStages = 8;
// Strategies evaluated to find what needs least memory, by estimate
inline constexpr std::size_t kSmallestEstimated = 256;
// or by simulation.
inline constexpr std::size_t kSmallestSimulated = 8;
// Operators simulated of one of the latter, and where weights alone are too large.
inline constexpr double kWorkOfSmallest = 2e5;
inline constexpr double kWorkOfTooLarge = 1e4;

// Advice on a strategy.
// A change is told if the step then takes at most this times what it does.
inline constexpr double kWorthTelling = 0.99;
// Of settings that fit, those within this of the fastest are equals: the fewest changes win.
inline constexpr double kNearlyAsFast = 1.02;

// Leaders: what neighbourhoods begin from.
// Candidates of every graph that are kept.
inline constexpr std::size_t kLeaders = 8;
// Strategies that a rewritten graph is laid out under,
inline constexpr std::size_t kRewrittenStrategies = 4;
// and a large one.
inline constexpr std::size_t kLargeRewrittenStrategies = 1;
// Strategies whose layouts the ranking of rewrites knows.
inline constexpr std::size_t kRankedUnder = 6;
// Leaders whose weights are stored otherwise.
inline constexpr std::size_t kStored = 3;
// Devices wait if exposed communication has this part of the step.
inline constexpr double kWaits = 0.02;
// Leaders of a rewrite that get the best plan's tables.
inline constexpr std::size_t kBesides = 2;
// Rewrites within this of the best are laid out under more strategies:
inline constexpr double kNearBest = 1.03;
// so many rewrites,
inline constexpr std::size_t kNearest = 3;
// each under so many.
inline constexpr std::size_t kOfNearest = 6;

// Pipelines whose ranks have settings of their own.
// Settings within this of the best are mixed,
inline constexpr double kMixNearBest = 1.25;
// so many of different pipelines,
inline constexpr std::size_t kMixBases = 6;
// and of a large network.
inline constexpr std::size_t kLargeMixBases = 2;
// So many of them also with other numbers of micro-batches,
inline constexpr std::size_t kMixVaried = 2;
// and of a large network.
inline constexpr std::size_t kLargeMixVaried = 1;
// Ranks share a layer or a sequence among at most this times as many devices.
inline constexpr std::int64_t kMixMoreDevices = 2;
// Mixtures that are simulated.
inline constexpr std::size_t kMixesTried = 2;
// A mixture has to be predicted to take at most this times the best.
inline constexpr double kWorthMixing = 0.997;
// Corrections of the predicted memory by that of the lowered program.
inline constexpr int kMixCorrections = 8;
// What a mixture may take of its prediction: layers do not divide as they should.
inline constexpr double kMixRounded = 1.01;
// Part of the memory that is left free beside the prediction.
inline constexpr double kMixMemoryStep = 0.002;
// Shares of recomputed operators that are nearer than this are equal.
inline constexpr double kShareStep = 0.01;

// Layouts.
// Strategies whose stages get layouts of their own,
inline constexpr std::size_t kLaidOut = 3;
// and of a large network.
inline constexpr std::size_t kLargeLaidOut = 1;
// Part of a step's cost that other layouts must save to be looked for.
inline constexpr double kLayoutGain = 1e-4;
// Memory has its price raised where what fits takes this times what does not.
inline constexpr double kFarLonger = 2;
// Halvings of the gap between a price at which nothing fits and one at which it does.
inline constexpr int kHalvings = 5;
// Mixtures of the layouts at these two prices.
inline constexpr std::size_t kMixedLayouts = 4;
// Times that a price rises, by the root of two each: 16,000 times in all.
inline constexpr int kRises = 28;
// It ends so many prices after the one that needs least,
inline constexpr int kBeyondLeast = 4;
// if that needs this much more,
inline constexpr double kMoreMemory = 1.5;
// or at this times a byte's share of the step, where memory is all that counts,
inline constexpr double kDear = 64;
// once what is needed changes by no more than this.
inline constexpr double kSameMemory = 0.001;
// What needs this much more than there is gets some prices next to its own.
inline constexpr double kNearlyFits = 0.1;
// A bound of layouts this near the best is not raised further.
inline constexpr double kBoundClose = 0.95;
// Steps by which the weights of a bound move: each takes a solution of the layouts.
inline constexpr double kFirstWeightStep = 0.5;
inline constexpr double kLastWeightStep = 0.125;
// All weights are moved again by the same step where that raised the bound so much.
inline constexpr double kWeightsGain = 1.02;
// Layouts of a tensor with several readers: those that the better states of its ends use.
inline constexpr std::size_t kTensorStates = 96;

// Rewrites.
// States of an operator while graphs are ranked: half of what a plan has.
inline constexpr std::size_t kRankingStates = 32;
// Entries of cost tables that are kept for other graphs: 128 MB.
inline constexpr std::size_t kMostTableEntries = 1U << 25U;
// Costs that differ by less are the same:
inline constexpr double kSameCost = 1e-4;
// what is worth to be followed further.
inline constexpr double kRewriteGain = 1e-3;
// Graphs that are ranked before a third of all in vain ends it.
inline constexpr std::size_t kLeastRanked = 60;
// Places at which one rule is applied, so that none goes on for ever.
inline constexpr int kMostRuleUses = 100;

// Placement of embedding tables and branches.
// Placements of tables that are simulated, all tables alike,
inline constexpr std::size_t kMostTablesAlike = 80;
// one by one,
inline constexpr std::size_t kMostTablesPlaced = 160;
// and beside operators on fewer devices.
inline constexpr std::size_t kMostNarrowed = 80;
// These begin where the first placement is within this of the best.
inline constexpr double kHopeless = 1.3;
// Placements of branches that are simulated, of one plan.
inline constexpr std::size_t kMostBranchesPlaced = 120;
// Plans whose branches are placed.
inline constexpr std::size_t kBranchedPlans = 2;
// Part of the weights that branches must have: else little is saved.
inline constexpr double kBranchWeights = 0.5;
// Branches placed alike begin where they are within this of the best.
inline constexpr double kAlikeTooSlow = 1.5;

// Fewer devices.
// A part of the machine has to take at most this times what all of it takes.
inline constexpr double kWorthFewer = 0.999;
// Devices of the next part, as a share of those of the one before, where layouts are searched;
inline constexpr double kNextPart = 0.6;
// parts on both sides of the fastest that follow.
inline constexpr std::size_t kPartsBeside = 2;
// What rewrites may gain where a part is judged by its layouts alone.
inline constexpr double kRewritesMayGain = 1.15;
// Gain of layouts on a part beyond that on all of a machine with several kinds of devices.
inline constexpr double kLayoutsMayGain = 1.05;
// Parts within this of the fastest by layouts alone are searched with rewrites,
inline constexpr double kNearPart = 1.1;
// within this of the fastest by plain strategies with layouts, too,
inline constexpr double kNearPlainPart = 1.06;
// so many at most.
inline constexpr std::size_t kPartsRewritten = 3;
// Counts of units up to which each is a part; above, powers of two and
inline constexpr std::int64_t kEveryCount = 64;
// so many of the largest that have small factors alone.
inline constexpr int kSmoothCounts = 4;

}  // namespace tandem::search::limits
