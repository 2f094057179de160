--- Language agent tree search, after Zhou et al. 2024, "Language Agent Tree Search Unifies
--- Reasoning, Acting, and Planning in Language Models".
---
---     ponder ask --strategy scripts/strategies/lats.lua --iterations 10 "..."
---
--- Monte Carlo tree search over reasoning steps. An iteration selects a leaf by UCT, asks for its
--- next steps, asks the model to value them, follows the best one down to an answer, and backs up
--- its value. The model reflects on answers below the threshold; later steps see the reflections.

local strategy = require "ponder.strategy"
local task = require "ponder.task"

local SYSTEM = {
    step = "Solve the problem step by step. Write the next step alone. If it completes the "
        .. "solution, write the answer in a line that begins with \"Answer:\".",
    value = "Judge how likely it is that these steps lead to a right solution, or are one. Check "
        .. "them. End with a line such as \"Value: 7\", from 0 to 10.",
    reflect = "This solution is wrong. Say in two sentences what went wrong, and what to do.",
}

local prompts = {}
for name, text in pairs(SYSTEM) do
    prompts[name] = function(context)
        local parts = { context:quote("problem", context.question),
            context:quote("steps", table.concat(context.steps, "\n")) }
        for _, lesson in ipairs(context.lessons or {}) do
            parts[#parts + 1] = context:quote("lesson", lesson)
        end
        return { { role = "system", content = context.instructions or text },
            { role = "user", content = table.concat(parts, "\n\n") } }
    end
end

-- Upper confidence bound for trees (Kocsis and Szepesvari 2006); ties go to the older node. A node
-- is closed if its subtree is exhausted. Returns nil if all nodes are closed.
local function select_leaf(root, exploration)
    local node = root
    while node.children[1] do
        local best, best_bound
        for _, child in ipairs(node.children) do
            local bound = child.visits == 0 and math.huge or child.sum / child.visits
                + exploration * math.sqrt(math.log(node.visits) / child.visits)
            if not child.closed and (not best or bound > best_bound) then
                best, best_bound = child, bound
            end
        end
        node.closed = not best
        node = best or root
        if root.closed then return nil end
    end
    return node
end

local function back_up(node, value)
    while node do
        node.visits, node.sum = node.visits + 1, node.sum + value
        node = node.parent
    end
end

-- Adds the next steps below a node, each with its value; returns the best one.
local function expand(thinker, question, lessons, node)
    local found = task.map(table.pack(("x"):rep(thinker.options.branching):byte(1, -1)), function()
        local text = thinker:prompt("step", { question = question, steps = node.steps,
            lessons = lessons }, { node = node.id })
        local steps = table.move(node.steps, 1, #node.steps, 1, {})
        steps[#steps + 1] = text
        local value = thinker:prompt("value", { question = question, steps = steps },
            { node = node.id, read = function(s) return strategy.read_grade(s, "value", 10) end })
        return { steps = steps, text = text, value = value }
    end)
    local best
    for _, child in ipairs(found) do
        child.parent, child.children, child.visits, child.sum = node, {}, 0, 0
        local answer, marked = strategy.read_answer(child.text)
        child.answer = marked and answer or nil
        child.id = thinker:node { text = child.text, score = child.value, parents = { node.id } }
        table.insert(node.children, child)
        best = best and best.value >= child.value and best or child
    end
    return best
end

local function count(default, help)
    return { type = "integer", min = 1, max = 200, default = default, help = help }
end

return strategy.new {
    name = "lats", summary = "search steps by Monte Carlo tree search, with reflection",
    roles = { "step", "value", "reflect" }, prompts = prompts,
    options = {
        iterations = count(8, "search iterations"), branching = count(3, "next steps of a node"),
        max_depth = count(6, "limit for the steps of a solution"),
        exploration = { type = "number", min = 0, default = 1.0, help = "exploration weight" },
        threshold = { type = "number", min = 0, max = 1, default = 0.9,
            help = "value of an answer that ends the search" },
    },
    run = function(thinker, question)
        local opts, lessons, best = thinker.options, {}, nil
        local root = { id = 1, steps = {}, children = {}, visits = 0, sum = 0 }
        for _ = 1, opts.iterations do
            local node = select_leaf(root, opts.exploration)
            while node and not node.answer and #node.steps < opts.max_depth do
                node = expand(thinker, question, lessons, node)
            end
            if not node then break end
            node.closed = true
            back_up(node, node.value)
            if node.answer and (not best or node.value > best.value) then
                best = node
                thinker:best(node.id, node.answer)
            end
            if best and best.value >= opts.threshold then break end
            lessons[#lessons + 1] = thinker:prompt("reflect", { question = question,
                steps = node.steps }, { node = node.id })
        end
        return best and best.answer, "no answer was reached", "NO_ANSWER"
    end,
}
