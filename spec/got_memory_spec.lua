-- ponder.got without memory: each allocation of a run fails once; nothing leaks or breaks.

local memory = require "memory"

local RUN = [[
    local got = require "ponder.got"
    local prompt = { { role = "user", content = "x" } }
    local prompts = {}
    for _, name in ipairs { "generate", "score", "connect", "aggregate", "vote", "refine" } do
        prompts[name] = function() return prompt end
    end

    local function run(options)
        options.prompts = prompts
        local machine = got.new(options)
        local function update(msg)
            local ok, directives = pcall(machine.update, machine, msg)
            if not ok then
                pcall(look, machine) -- whatever was left behind can be read
                error(directives, 0)
            end
            return directives
        end
        local open = update { type = "start", prompt = "p", call_id = "c0" }
        while #open > 0 and open[1].type ~= "completed" do
            local came = {}
            for _, directive in ipairs(open) do
                local next = update { type = "llm_result", ok = true,
                    call_id = directive.call_id, text = "[n2] -> [n3]" }
                came = #next > 0 and next or came
            end
            open = came
        end
        return machine
    end

    local function look(machine)
        for _, node in ipairs(machine.nodes) do
            machine:get_ancestors(node.id)
        end
        machine:has_cycle()
        machine:find_best_leaf()
        return machine.status, machine.edges[1], machine.pending_node_ids
    end

    return function()
        local machine = run { chain = CHAIN, aggregation_strategy = "voting", votes = 2,
            branching_factor = 2, min_nodes_for_aggregation = 4 }
        assert(machine.status == "completed")
        local copy = got.from_map(machine:clone():to_map())
        assert(#copy:get_ancestors(copy.result_node_id) > 0 and not copy:has_cycle())
    end
]]

describe("ponder.got without memory", function()
    it("raises, and leaks nothing", function()
        for _, chain in ipairs { "false", "true" } do
            assert.is_true(memory.sweep(RUN:gsub("CHAIN", chain), 41) > 300)
        end
    end)
end)
