--- Drives a Tree of Thoughts machine with made-up replies, for specs.

local driver = {}

--- A reply for a directive: thoughts named after the node, scores from `score(content)`.
function driver.reply(directive, score)
    if directive.type == "generate_thoughts" then
        local thoughts = {}
        for i = 1, directive.count do
            thoughts[i] = ("%s.%d"):format(directive.node_id, i)
        end
        return { type = "thoughts_generated", call_id = directive.call_id, thoughts = thoughts }
    end
    local scores = {}
    for _, thought in ipairs(directive.thoughts) do
        scores[thought.id] = score(thought.content)
    end
    return { type = "thoughts_evaluated", call_id = directive.call_id, scores = scores }
end

--- A score that depends on the text alone.
function driver.hash_score(content)
    local h = 5381
    for i = 1, #content do
        h = (h * 33 + content:byte(i)) % 1000003
    end
    return h % 90 / 100
end

--- Runs a machine to its end. `pick(n)` says which of n open directives is answered next; every
--- step may replace the machine by what `between(machine)` returns.
---@return table machine, table[] steps directives and events of each update
function driver.run(machine, env, opts)
    opts = opts or {}
    local score, pick = opts.score or driver.hash_score, opts.pick or function() return 1 end
    local steps, open = {}, {}
    local function update(msg)
        local directives, events = machine:update(msg, env)
        steps[#steps + 1] = { directives = directives, events = events }
        table.move(directives, 1, #directives, #open + 1, open)
        if opts.between then
            machine = opts.between(machine, open)
        end
    end
    update { type = "start", prompt = opts.prompt or "the question", call_id = "c0" }
    while #open > 0 do
        update(driver.reply(table.remove(open, pick(#open)), score))
    end
    return machine, steps
end

--- Continues a busy machine until it ends, or for 200 replies.
function driver.run_on(machine)
    for _ = 1, 200 do
        local call_id = machine.current_call_id
        local kind = machine.status == "generating" and "thoughts_generated" or "thoughts_evaluated"
        if machine.status ~= "generating" and machine.status ~= "evaluating" then
            break
        end
        machine:update({ type = kind, call_id = call_id, thoughts = { "x", "y" },
            scores = { t1 = 0.5 } }, { now_ms = 0 })
        if machine.current_call_id == call_id then -- the other kind of call came first
            machine:update({ type = "thoughts_evaluated", call_id = call_id, scores = {} },
                { now_ms = 0 })
        end
    end
    return machine.result, machine.pending_thoughts, machine:find_best_leaf(), machine:to_map()
end

--- The nodes of a machine as text: "n2<n1 0.5 d1 text".
function driver.tree(machine)
    local lines = {}
    for i, node in ipairs(machine.nodes) do
        lines[i] = ("%s<%s %s d%d %s [%s]"):format(node.id, node.parent_id or "-",
            node.score or "-", node.depth, node.content, table.concat(node.children, " "))
    end
    return table.concat(lines, "\n")
end

return driver
