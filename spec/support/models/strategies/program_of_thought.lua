-- A model for scripts/strategies/program_of_thought.lua: its first program has an error, the second
-- one does not end, the third one is right.

return function(request)
    local text = request.messages[#request.messages].content
    local code = "local sum = 0\nfor i = 1, 8 do sum = sum + i * i end\nreturn sum"
    if not text:find("<program>", 1, true) then
        code = "return sum_of_squares(8)"
    elseif text:find("sum_of_squares", 1, true) then
        code = "while true do end"
    end
    return { text = "So:\n```lua\n" .. code .. "\n```\n",
        usage = { input_tokens = 100, output_tokens = 10 } }
end
