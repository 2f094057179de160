--- Scripted models: `script:FILE` is a model written in Lua, for tests, demonstrations and
--- teaching.
---
---     -- parrot.lua
---     return function(request)
---         local last = request.messages[#request.messages]
---         return { text = last.content, usage = { input_tokens = 3, output_tokens = 3 } }
---     end
---
--- The file runs once for each open model, so local variables keep their values between calls. A
--- relative name is relative to the working directory. The function is called in the task that made
--- the call, and may wait (task.sleep for a slow model). It returns text, or a table with `text` or
--- `texts`, and `usage`, `tool_calls`, `finish_reason`, `reasoning`, `logprobs`; or nil, message,
--- code. An error is a failure with the code `SERVER`.
---
--- Each reply has `scripted = true`, so that it is not mistaken for a real model's.

local core = require "ponder.core.task"
local files = require "ponder.run.log.files"
local options = require "ponder.base.options"
local scheduler = require "ponder.run.task.scheduler"
local schema = require "ponder.model.schema"

local script = { name = "script", marks = "scripted" }

---@class ponder.model.ScriptRequest the argument of the function
---@field messages ponder.model.Message[]
---@field system string|table|nil with response_format or returns, also the schema in a line
---@field options table the call's options: temperature, max_output_tokens, tools...
---@field seed integer? the call's, or that of its sample in an evaluation (ponder eval --seed)
---@field n integer number of samples; missing ones are requested again
---@field sample integer number of the first one
---@field metadata table?
---@field emit fun(text: string, kind?: "text"|"reasoning", tokens?: table[])? for streamed replies:
---emits a piece, with its tokens if it has log probabilities; does not return if the caller ends
---the reply. The rest of the text is emitted at the end.

local ENDED = {} -- raised where the caller ends the reply

-- Target of an open model -> the function of its file.
local loaded = setmetatable({}, { __mode = "k" })

local function load_function(path)
    local answer, problem = files.run(path, "model", debug.traceback)
    if problem then
        return nil, tostring(problem)
    elseif type(answer) ~= "function" then
        return nil, ("%s: must return a function from a request to a reply (got %s)"):format(path,
            options.show(answer))
    end
    return answer
end

---Loads the file of a model that is being opened.
---@return boolean? ok
---@return string? message with file and line
---@package
function script.open(target)
    local answer, problem = load_function(target.model)
    if not answer and scheduler.is_playing() then
        -- Calls are answered by the log. The model of a job was read where that ran.
        answer, problem = function() return nil, problem end, nil
    end
    loaded[target] = answer
    return answer ~= nil or nil, problem
end

-- The argument of the function; `request.pieces` are what it emits.
local function script_request(request)
    local system = request.system
    if request.format then
        local line = schema.instruction(request.format)
        system = system == nil and line or type(system) == "string" and system .. "\n\n" .. line
            or system
    end
    local seen = { messages = request.messages, system = system, options = request.options,
        seed = request.options.seed, n = request.n, sample = request.sample,
        metadata = request.metadata }
    if request.stream then
        local pieces, logprobs = {}, {}
        request.pieces, request.logprobs = pieces, logprobs
        function seen.emit(text, kind, tokens)
            if type(text) == "string" and text ~= "" then
                if kind ~= "reasoning" then
                    pieces[#pieces + 1] = text
                end
                table.move(tokens or {}, 1, #(tokens or {}), #logprobs + 1, logprobs)
                request:emit(text, kind or "text", 1, tokens)
                if request.is_ended then error(ENDED, 0) end
            end
        end
    end
    return seen
end

local function with_traceback(message)
    return message == ENDED and message or debug.traceback(message)
end

---Answers a request.
---@return any reply what the function returned; nil: it failed
---@return string? message
---@return string? code
---@package
function script.call(request)
    local f = loaded[request.target] -- a local: an error may have to name it
    local ok, reply, message, code = xpcall(f, with_traceback, script_request(request))
    if not ok and core.stop_reason() then
        error(reply, 0) -- Ctrl-C is not the model's failure
    elseif reply == ENDED then
        local logprobs = request.logprobs
        return request.end_reply { attempts = 1, samples = { { text = table.concat(request.pieces),
            logprobs = logprobs[1] and logprobs or nil } } }
    elseif not ok then
        return nil, tostring(reply), "SERVER"
    elseif reply == nil then
        return nil, message and tostring(message) or "the script returned no reply", code
    end
    return reply
end

---Emits the rest of the reply's text as the last piece.
---@param draft ponder.model.Draft
---@package
function script.finish(request, draft)
    local first, emitted = draft.samples[1], table.concat(request.pieces or {})
    if emitted == "" or not first or not first.text then
        return
    end
    first.logprobs = first.logprobs or request.logprobs[1] and request.logprobs or nil
    if first.text == "" then
        first.text = emitted
    elseif first.text:sub(1, #emitted) == emitted and #first.text > #emitted then
        request:emit(first.text:sub(#emitted + 1), "text", 1)
    end
end

return script
