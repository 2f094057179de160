---@meta ponder.core.search
error("a description for editors, not a module")

-- Which search to take when. All take `expand`, `is_terminal`, `batch`, `concurrency`, `key`,
-- `stop` and the limits.
--
-- | search     | take it when                        | guarantees
-- |------------|-------------------------------------|-----------------------------------------
-- | bfs        | fewest steps count, a small tree    | the first terminal node is the nearest
-- | dfs        | any answer will do, memory is short | all nodes; flat with retain = "path"
-- | beam       | scores of one level compare         | beam_width nodes a level
-- | best_first | scores compare across levels        | the best open node is next
-- | uct        | noisy scores, a budget of calls     | all is tried, the good more often
-- | puct       | and a prior knows good children     | the same, led by the prior
-- | ab_mcts    | a model can be asked again          | wider or deeper, as the scores say
-- | astar      | steps cost, the tree fits memory    | a cheapest path (with key, heuristic)
-- | idastar    | the same, and it does not fit       | a cheapest path in flat memory
-- | dvts       | many samples and a verifier         | independent subtrees: answers differ
-- | evolve     | whole solutions improve for long    | islands that exchange their best
--
-- What each needs: evaluate, or heuristic and cost (astar, idastar); scores in 0..1 (ab_mcts). A
-- heuristic must never be higher than the cost that is left.

---Options of search.run for uct and puct (Kocsis and Szepesvari 2006; Silver et al. 2018).
---A ticket is a descent to an open leaf, which is expanded; each new child's value is backed up.
---Pending descents count as visits (Liu et al. 2020), so `batch` > 1 spreads out. A subtree that is
---wholly known is closed. Nodes have `visits` and `value`.
---@class ponder.search.UctOptions
---@field c? number uct: weight of exploration, default sqrt(2)
---@field c_init? number puct: default 1.25
---@field c_base? number puct: default 19652
---@field prior? string|fun(states: any[], nodes: SearchNode[], parent: SearchNode): number[]
---  "none", "uniform", "softmax", or a function:
---  numbers >= 0, used as they are, asked once for a node's children after they are scored and
---  tested; default: uct none, puct uniform; softmax is over the scores
---@field normalize? boolean values are scaled to 0..1 over the search; default true
---@field backup? "mean"|"max" what a node's value is of those below it; default mean
---@field rollout? "none"|"greedy" greedy: goes on with the best new child until it cannot be
---  expanded, and backs up the value of the last one; default none
---@field revisit? boolean terminal nodes and leaves at max_depth stay open, as in most published
---  programs; default false
---@field guide? number deep instead of wide as max_iterations run out (BG-MCTS 2026: 1); default
---  none
---@field spent? fun(): number with guide: the share 0..1 of a budget that is spent, asked once a
---  round
---@field simulate? fun(state: any, node: SearchNode): number a node's value, in place of its score
---@field max_iterations? integer tickets; default 100

---Options for ab_mcts (Inoue et al. 2025): Thompson sampling decides at each node whether to
---generate
---another child or to go on with one. `expand` finds `node.expansions`, and `node.action` where
---there
---are actions. Scores should be in 0..1; with beta they must.
---@class ponder.search.AbMctsOptions
---@field posterior? "gaussian"|"beta"|"mixed" default gaussian; mixed shares strength between
---  siblings, and takes milliseconds a ticket
---@field actions? string[] ways to generate, such as models: one is chosen for each ticket
---@field seed? integer default 0; every draw is a function of it and of where it is made
---@field k? integer children of an expansion, default 1
---@field simulate? fun(state: any, node: SearchNode): number a node's value, in place of its score
---@field max_iterations? integer tickets; default 100

---Options for astar (Hart, Nilsson and Raphael 1968) and idastar (Korf 1985). A node's score is -f,
---f = g + weight * h; nodes have `g`. The first terminal node that is selected ends the search.
---With
---`key` a state is added again when a cheaper path to it is found, so h need not be consistent. A
---cheapest path is found if weight is 1, h never overestimates and max_depth cuts nothing, for any
---batch.
---@class ponder.search.PathOptions
---@field cost? fun(state: any, child_state: any, node: SearchNode): number >= 0; default 1
---@field heuristic? fun(state: any, node: SearchNode): number default 0; in place of evaluate
---@field weight? number default 1; more is faster and less exact
---@field retain? "tree"|"path" idastar, dfs: "path" frees a node once nothing open descends from
---  it;
---  idastar then expands again in each pass. Not with key

---Options for dvts (Beeching, Tunstall and Rush 2024): the root's subtrees*k children begin
---`subtrees`
---beams of their own. `result.kept` has the ids of each level. Best of N is {subtrees = N, k = 1}
---and
---search.vote.
---@class ponder.search.DvtsOptions
---@field subtrees? integer default 4
---@field beam_width? integer nodes kept a subtree; default 1
---@field simulate? fun(state: any, node: SearchNode): number lookahead: a node's value

---Options for evolve: a ticket expands a parent drawn from an island, whose members its children
---join.
---`expand` finds `node.expansions`, `node.island` and `node.inspirations`; mutation and crossover
---are
---its own. `result.islands` has the members.
---@class ponder.search.EvolveOptions
---@field islands? integer default 1
---@field select? "weighted"|"puct"|"best" weighted: by score and few children (ShinkaEvolve); puct:
---  by rank and few tickets (after TTT-Discover); default weighted
---@field sharpness? number weighted: default 10
---@field c? number puct: default 1
---@field population? integer members an island keeps; default all
---@field features? fun(state: any, node: SearchNode): integer a cell: an island keeps one member of
---  each (MAP-Elites)
---@field migrate_every? integer tickets, after which each island's best join the next island
---@field migrate? integer how many, default 1
---@field seed? integer default 0
---@field max_iterations? integer tickets; default 100

---The engine as search.run and its drivers use it; scripts use ponder.search.
local search = {}

---A search with its root.
---@param opts table the checked options of search.run
---@return userdata core
function search.new(opts) end

return search
