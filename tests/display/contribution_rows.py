"""A metrics.csv of individuals that can be checked by hand."""

HEADER = (
    "update,env_steps,wall_seconds,kind,logical_worker,idle_virtual_seconds,fitness,mean_fitness,"
    "improvement_over_mean,step_size,update_norm,accepted,distance_moved,staleness_tells\n"
)
ROWS = (
    "1,10,1.0,2.0,0.0,0.0,3.0,nan,nan,nan,nan,nan,nan,nan\n"
    "2,20,2.0,0.0,0.0,0.0,4.0,3.0,1.0,0.5,2.0,1.0,0.0,0.0\n"
    "3,30,3.0,1.0,1.0,0.0,9.0,3.0,6.0,0.5,6.0,1.0,8.0,1.0\n"
    "4,40,4.0,0.0,0.0,0.25,2.0,5.0,-3.0,0.0,0.0,0.0,0.0,3.0\n"
    "5,50,5.0,1.0,1.0,0.75,5.0,5.0,0.0,0.5,0.0,0.0,4.0,2.0\n"
)
