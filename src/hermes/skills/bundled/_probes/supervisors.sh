{{supervisor_functions}}
