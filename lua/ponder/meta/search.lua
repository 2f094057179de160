---@meta ponder.core.search
error("a description for editors, not a module")

-- Which search to use. All take `expand`, `is_terminal`, `batch`, `concurrency`, `key`, `stop` and
-- the limits. See also `ponder help searches`.
--
-- | search     | use it when                         | guarantees
-- |------------|-------------------------------------|-----------------------------------------
-- | bfs        | fewest steps count, a small tree    | the first terminal node is the nearest
-- | dfs        | any answer will do, memory is short | all nodes; flat with retain = "path"
-- | beam       | scores compare within a level       | beam_width nodes per level
-- | best_first | scores compare across levels        | the best open node is next
-- | uct, puct  | noisy scores, a budget of calls     | tries all, good ones more; puct: by prior
-- | ab_mcts    | a model can be sampled repeatedly   | wider or deeper, by the scores
-- | astar      | steps have costs, tree fits memory  | a cheapest path (with key, heuristic)
-- | idastar    | the same, tree does not fit memory  | as astar; flat with retain = "path"
-- | dvts       | many samples and a verifier         | independent subtrees: diverse answers
-- | evolve     | whole solutions improve gradually   | islands that exchange their best
-- | halving    | few calls, one decision at the root | halves the children that are tried
-- | particles  | a model goes on step by step        | a fair sample, by the scores
--
-- Requirements: evaluate, or heuristic and cost (astar, idastar); scores in 0..1 (ab_mcts). A
-- heuristic must never exceed the remaining cost.

---Options of search.run for uct and puct (Kocsis and Szepesvari 2006; Silver et al. 2018).
---A ticket is a descent to an open leaf, which is expanded; each new child's value is backed up.
---Pending descents count as visits (Liu et al. 2020), so `batch` > 1 spreads out. A completely
---explored subtree is closed. Nodes have `visits` and `value`. Scores must be finite: an infinite
---one makes all means above it infinite.
---@class ponder.search.UctOptions
---@field c? number uct: weight of exploration, default sqrt(2)
---@field c_init? number puct: default 1.25
---@field c_base? number puct: default 19652
---@field prior? string|fun(states: any[], nodes: SearchNode[], parent: SearchNode): number[]
---  "none", "uniform", "softmax" (of the scores), or a function that returns numbers >= 0; called
---  once for a node's children, after they are evaluated; default: uct none, puct uniform
---@field normalize? boolean scale values to 0..1 over the search; default true
---@field backup? "mean"|"max" how a node's value is computed from its descendants; default mean
---@field rollout? "none"|"greedy" greedy: expands the best new child, repeatedly, until it cannot
---  be expanded, and backs up the value of the last one; default none
---@field revisit? boolean terminal nodes and leaves at max_depth stay open, as in most published
---  programs; default false
---@field guide? number searches deeper instead of wider as max_iterations run out (BG-MCTS 2026:
---  1); default none
---@field spent? fun(): number with guide: the spent share 0..1 of a budget, called once per round
---@field simulate? fun(state: any, node: SearchNode): number a node's value, instead of its score
---@field max_iterations? integer tickets; default 100
---@field lazy? boolean a child is scored when it is first selected, as in AlphaZero: `evaluate`,
---  `is_terminal` and `simulate` are asked then; a prior function finds nodes without a score. Not
---  with rollout and prior = "softmax". Default false
---@field unvisited? "infinite"|"parent"|number with lazy: the value of a child without visits;
---  default uct infinite, puct parent

---Options for ab_mcts (Inoue et al. 2025): Thompson sampling decides at each node whether to
---generate another child or to descend to an existing one. `expand` can read `node.expansions`, and
---`node.action` if there are actions; an empty list means that the node has no more children.
---Scores should be in 0..1; with beta they must be.
---@class ponder.search.AbMctsOptions
---@field posterior? "gaussian"|"beta"|"mixed" default gaussian; mixed shares strength between
---  siblings, and takes milliseconds per ticket
---@field actions? string[] ways to generate, such as models: one is chosen for each ticket
---@field seed? integer default 0; every draw depends only on it and its position in the tree
---@field k? integer children per expansion, default 1
---@field simulate? fun(state: any, node: SearchNode): number a node's value, instead of its score
---@field max_iterations? integer tickets; default 100

---Options for astar (Hart, Nilsson and Raphael 1968) and idastar (Korf 1985). A node's score is -f,
---f = g + weight * h; nodes have `g`. The first terminal node that is selected ends the search.
---With `key` a state is added again when a cheaper path to it is found, so h need not be
---consistent. The path is a cheapest one if weight is 1, h never overestimates and max_depth cuts
---nothing, for any batch.
---@class ponder.search.PathOptions
---@field cost? fun(state: any, child_state: any, node: SearchNode): number >= 0; default 1
---@field heuristic? fun(state: any, node: SearchNode): number default 0; instead of evaluate
---@field weight? number default 1; a higher one is faster but less exact
---@field retain? "tree"|"path" idastar, dfs: "path" frees a node once nothing open descends from
---  it; idastar then expands again in each pass. Not with key

---Options for dvts (Beeching, Tunstall and Rush 2024): the root's subtrees*k children start
---`subtrees` independent beams. `result.kept` has the ids of each level. Best of N is
---{subtrees = N, k = 1} with search.vote.
---@class ponder.search.DvtsOptions
---@field subtrees? integer default 4
---@field beam_width? integer nodes kept per subtree; default 1
---@field simulate? fun(state: any, node: SearchNode): number lookahead: a node's value

---Options for evolve: a ticket expands a parent drawn from an island; the children join the island.
---`expand` can read `node.expansions`, `node.island` and `node.inspirations`, and implements
---mutation and crossover; an empty list means that the parent has no more children.
---`result.islands` has the members. Scores must be finite, except with `select = "best"`.
---@class ponder.search.EvolveOptions
---@field islands? integer default 1
---@field select? "weighted"|"puct"|"best" weighted: prefers high scores and few children
---  (ShinkaEvolve); puct: high ranks and few tickets (after TTT-Discover); default weighted
---@field sharpness? number weighted: default 10
---@field c? number puct: default 1
---@field population? integer limit for the members of an island; default none
---@field features? fun(state: any, node: SearchNode): integer a cell: an island keeps one member
---  per cell (MAP-Elites)
---@field migrate_every? integer tickets between migrations of each island's best to the next island
---@field migrate? integer number of migrating members, default 1
---@field seed? integer default 0
---@field max_iterations? integer tickets; default 100

---Options for halving (Danihelka et al. 2022: Gumbel noise and sequential halving at the root, as
---in mctx). Children are scored when they are selected, as with `lazy`. `result.choice` is the id
---of the root's child to choose.
---@class ponder.search.HalvingOptions
---@field max_iterations? integer the number of simulations, which the schedule divides; default 100
---@field considered? integer children of the root that are tried; default 16
---@field gumbel? number scale of the noise at the root, 0: none; default 1
---@field value_scale? number how much values count beside priors; default 0.1
---@field maxvisit_init? number the same, before there are visits; default 50
---@field prior? "uniform"|fun(states: any[], nodes: SearchNode[], parent: SearchNode): number[]
---  default uniform
---@field seed? integer default 0

---Options for particles: particle filtering and particle Gibbs (Puri et al. 2025), REBASE (Wu et
---al. 2024). All particles begin at the root; each round every particle that is not finished makes
---one child, with k = 1, and particles are resampled by their nodes' weights. `result.kept` has
---the nodes of the particles after each round; `search.vote` chooses among the last.
---@class ponder.search.ParticlesOptions
---@field particles? integer default 4
---@field weight? "softmax"|"logit" of a value; logit is for values 0..1; default softmax
---@field temperature? number of the softmax; default 1
---@field resample? "systematic"|"multinomial"|"balanced" balanced (REBASE): places in proportion to
---  weight, without chance; default systematic
---@field anneal? number raises the temperature early on while the effective share of particles is
---  below this (entropic particle filtering: 0.5); default none
---@field gibbs? integer iterations; default 1
---@field references? integer particles that the next iteration of Gibbs keeps, default 1
---@field seed? integer default 0

---The engine behind search.run; scripts use ponder.search.
local search = {}

---A search with its root.
---@param opts table as ponder.base.searches makes them
---@param initial_state any
---@return userdata core
function search.new(opts, initial_state) end

return search
